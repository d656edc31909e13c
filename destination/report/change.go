package report

import (
	"encoding/json"
	"time"

	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A Change is a change that was applied: its result in the mirror is durable. Its JSON
// is a line of `sync --events`.
type Change struct {
	Set      string              // name of the set
	URI      string              // of the resource
	Kind     resourcesync.Change // Created, Updated or Deleted
	Path     string              // of the file
	Length   int64               // of the file; of a deletion zero, like all that follows but Datetime
	Type     string              // media type, as the Source states it; may be empty
	Hashes   resourcesync.Hashes // of the file
	Lastmod  time.Time           // as the Source states it; zero if it does not
	Datetime time.Time           // of the change at the Source; zero if it is not stated
	Links    []resourcesync.Link // that the Source states, as [journal.Held] has them
	Stated   *journal.Stated     // what the Source states of the content; nil: unknown
	Content  Content             // whether the content changed
}

// Content says what a change did to the content of a resource.
type Content uint8

// The content was replaced, or it is the same as before: the Source states
// another media type or other links.
const (
	ContentReplaced Content = iota
	ContentSame
)

// contentSame is the JSON of ContentSame.
const contentSame = "unchanged"

// A changeLine is a Change or another event as JSON.
type changeLine struct {
	Event    EventKind `json:"event"`
	Set      string    `json:"set,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Change   string    `json:"change,omitempty"`
	Path     string    `json:"path,omitempty"`
	Length   *int64    `json:"length,omitempty"`
	Type     string    `json:"type,omitempty"`
	Hash     string    `json:"hash,omitempty"`
	Datetime string    `json:"datetime,omitempty"`
	Lastmod  string    `json:"lastmod,omitempty"`

	Content string      `json:"content,omitempty"`
	Links   []LinkLine  `json:"links,omitempty"`
	Stated  *statedLine `json:"stated,omitempty"`

	Cause   string   `json:"cause,omitempty"`
	Finding *Finding `json:"finding,omitempty"`
}

// Line returns what the JSON object of a change encodes, for encoders with settings
// of their own.
func Line(c *Change) any { return c.line() }

func (c *Change) line() changeLine {
	l := changeLine{Event: EventApplied, Set: c.Set, URI: c.URI, Change: changeName(c.Kind), Path: c.Path, Type: c.Type,
		Hash: wording.Hashes(c.Hashes), Datetime: timeText(c.Datetime), Lastmod: timeText(c.Lastmod)}
	if c.Kind != resourcesync.Deleted {
		l.Length = &c.Length
	}
	if c.Content == ContentSame {
		l.Content = contentSame
	}
	l.Links, l.Stated = LinkLines(c.Links), newStatedLine(c.Stated)
	return l
}

// MarshalJSON returns c as one object.
func (c Change) MarshalJSON() ([]byte, error) { return json.Marshal(c.line()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Change) UnmarshalJSON(b []byte) error {
	var l changeLine
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	*c = Change{Set: l.Set, URI: l.URI, Path: l.Path, Type: l.Type, Datetime: parseTime(l.Datetime), Lastmod: parseTime(l.Lastmod)}
	for _, k := range []resourcesync.Change{resourcesync.Created, resourcesync.Updated, resourcesync.Deleted} {
		if changeName(k) == l.Change {
			c.Kind = k
		}
	}
	if l.Length != nil {
		c.Length = *l.Length
	}
	c.Hashes, _ = resourcesync.ParseHashes(l.Hash) // liberties: we wrote it
	if l.Content == contentSame {
		c.Content = ContentSame
	}
	for i := range l.Links {
		c.Links = append(c.Links, l.Links[i].link())
	}
	c.Stated = l.Stated.stated()
	return nil
}

// parseTime reverses timeText. It returns the zero time for an invalid text.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// AppliedEvent returns the event that reports an applied change.
func AppliedEvent(c *Change) Event {
	return Event{Kind: EventApplied, Set: c.Set, URI: c.URI, Change: c.Kind, Path: c.Path, Length: c.Length, Type: c.Type,
		Hashes: c.Hashes, Datetime: c.Datetime, Lastmod: c.Lastmod, Links: c.Links, Stated: c.Stated, Content: c.Content}
}

// changeName returns the name of a change in JSON.
func changeName(c resourcesync.Change) string {
	switch c {
	case resourcesync.Created:
		return "created"
	case resourcesync.Updated:
		return "updated"
	case resourcesync.Deleted:
		return "deleted"
	}
	return ""
}

// timeText returns a time as JSON has it, or nothing for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
