package discover

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"lockstep/websub"
)

// maxRobots caps the bytes read of a robots.txt; RFC 9309 requires at least
// half a megabyte.
const maxRobots = 1 << 20

// parseRobots returns the Sitemaps that a robots.txt names, in order, each once.
// Sitemap lines do not belong to the groups of user agents (RS-DISC-08). It fails
// if r does: the unread part may contain a line. The error is a [*limitError] if
// there are more than maxSets, or robots.txt is longer than maxRobots.
func parseRobots(r io.Reader, base *url.URL) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	lines := bufio.NewScanner(&limitedReader{r, maxRobots, maxRobots})
	lines.Buffer(nil, maxRobots+1)
	lines.Split(scanLines)
	before := 0 // the last line
	for first := true; lines.Scan(); first = false {
		line := lines.Bytes()
		before = len(found)
		if first {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		name, value, ok := bytes.Cut(withoutComment(line), []byte(":"))
		if !ok || !strings.EqualFold(string(bytes.TrimSpace(name)), "sitemap") || !utf8.Valid(value) {
			continue
		}
		value = bytes.TrimSpace(value)
		u, err := websub.Resolve(base, string(value))
		if len(value) == 0 || err != nil || u.Host == "" || seen[u.String()] {
			continue
		}
		if len(found) == maxSets {
			return found, &limitError{fmt.Sprintf("more than %d Sitemaps", maxSets)}
		}
		seen[u.String()] = true
		found = append(found, u.String())
	}
	if err := lines.Err(); err != nil {
		return found[:before], err // only a part of the last line may have been read
	}
	return found, nil
}

// hashOf returns the hash of addresses.
func hashOf(uris []string) string {
	sum := sha256.Sum256([]byte(strings.Join(uris, "\n")))
	return hex.EncodeToString(sum[:])
}

// withoutComment removes a comment, which begins at a "#" at the start of the
// line or after a blank: elsewhere it belongs to a URI.
func withoutComment(line []byte) []byte {
	for i, c := range line {
		if c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}

// scanLines is a bufio.SplitFunc for lines that end in CR, LF or both.
func scanLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
