package description

import (
	"bytes"
	"strings"

	"lockstep/source/internal/names"
)

// robotsMark is how a robots.txt of ours begins. Any other is its owner's.
const robotsMark = "# Written by lockstep.\n"

// robots returns a robots.txt that names the Resource Lists of the sets
// (RS-DISC-07), and only those: other documents are no Sitemaps (RS-SMC-01).
func (s *Documents) robots(sets []Set) []byte {
	var b strings.Builder
	b.WriteString(robotsMark + "User-agent: *\nAllow: /\n\n")
	for _, set := range sets {
		b.WriteString(s.sitemapLine(set) + "\n")
	}
	return []byte(b.String())
}

func (s *Documents) sitemapLine(set Set) string {
	return "Sitemap: " + s.docs.Base.URI(names.Set(set.Name).ResourceList())
}

// lacking returns the lines of ours that are not in a robots.txt of others.
func (s *Documents) lacking(robots []byte, sets []Set) (lines []string) {
	for _, set := range sets {
		if !bytes.Contains(robots, []byte(s.docs.Base.URI(names.Set(set.Name).ResourceList()))) {
			lines = append(lines, s.sitemapLine(set))
		}
	}
	return lines
}

func ourRobots(data []byte) bool { return bytes.HasPrefix(data, []byte(robotsMark)) }
