package report

import (
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A LinkLine is a link as JSON. Datetimes and hashes are as documents write them.
type LinkLine struct {
	Rel      string `json:"rel"`
	Href     string `json:"href"`
	Type     string `json:"type,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Path     string `json:"path,omitempty"`
	Modified string `json:"modified,omitempty"`
	Length   *int64 `json:"length,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Pri      int    `json:"pri,omitempty"`
	Foreign  string `json:"foreign,omitempty"` // as resourcesync.Foreign has it
}

// LinkLines returns links for JSON.
func LinkLines(links []resourcesync.Link) []LinkLine {
	if len(links) == 0 {
		return nil
	}
	lines := make([]LinkLine, len(links))
	for i := range links {
		l := &links[i]
		lines[i] = LinkLine{Rel: l.Rel, Href: l.Href, Type: l.Type, Encoding: l.Encoding, Path: l.Path, Modified: datetimeText(l.Modified), Hash: wording.Hashes(l.Hashes), Pri: l.Pri,
			Foreign: l.Foreign.String()}
		if l.HasLength {
			lines[i].Length = &l.Length
		}
	}
	return lines
}

func (l *LinkLine) link() resourcesync.Link {
	is := resourcesync.Link{Rel: l.Rel, Href: l.Href, Type: l.Type, Encoding: l.Encoding, Path: l.Path, Modified: parseDatetime(l.Modified), Pri: l.Pri}
	is.Hashes, _ = resourcesync.ParseHashes(l.Hash)      // liberties: we wrote it
	is.Foreign, _ = resourcesync.ParseForeign(l.Foreign) // likewise
	if l.Length != nil {
		is.Length, is.HasLength = *l.Length, true
	}
	return is
}

// A statedLine is what the Source states of the content, as JSON.
type statedLine struct {
	Lastmod  string `json:"lastmod,omitempty"`
	Length   *int64 `json:"length,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Foreign  string `json:"foreign,omitempty"`
}

// StatedLine returns what the JSON object of a statement encodes; nil for nil.
func StatedLine(s *journal.Stated) any {
	if s == nil {
		return nil
	}
	return newStatedLine(s)
}

func newStatedLine(s *journal.Stated) *statedLine {
	if s == nil {
		return nil
	}
	l := &statedLine{Lastmod: datetimeText(s.Lastmod), Hash: wording.Hashes(s.Hashes), Encoding: s.Encoding, Foreign: s.Foreign.String()}
	if s.Length >= 0 {
		l.Length = &s.Length
	}
	return l
}

func (l *statedLine) stated() *journal.Stated {
	if l == nil {
		return nil
	}
	s := &journal.Stated{Lastmod: parseDatetime(l.Lastmod), Length: -1, Encoding: l.Encoding}
	s.Hashes, _ = resourcesync.ParseHashes(l.Hash)      // liberties: we wrote it
	s.Foreign, _ = resourcesync.ParseForeign(l.Foreign) // likewise
	if l.Length != nil {
		s.Length = *l.Length
	}
	return s
}

// datetimeText returns a datetime as documents write it, or nothing if it is zero.
func datetimeText(d resourcesync.Datetime) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// parseDatetime reverses datetimeText.
func parseDatetime(s string) resourcesync.Datetime {
	d, err := resourcesync.ParseDatetime(s)
	if err != nil {
		return resourcesync.Datetime{}
	}
	return d
}
