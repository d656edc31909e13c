package share

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
)

// A request asks for one resource. Messages of kind ToFetch have a list of them; those of
// ToCommit and ToDrop have a list of numbers.
type request struct {
	N      int64  `json:"n"` // of the content
	Action []byte `json:"action"`
	Path   []byte `json:"path"`
	Tag    string `json:"tag,omitempty"` // of the object that is held
}

// Answers are the body of messages of kind Fetched.
type answers struct {
	Answers  []answer `json:"answers"`
	Requests int64    `json:"requests"` // that the process has sent since its last message
	Bytes    int64    `json:"bytes"`    // that it received
}

// An answer says what came of a request.
type answer struct {
	N         int64     `json:"n"`
	OK        bool      `json:"ok"`                  // otherwise the coordinator does it itself
	Unchanged bool      `json:"unchanged,omitempty"` // the content is what is held: there is nothing to be committed
	Held      []byte    `json:"held,omitempty"`      // length, hashes and validators of the content
	Written   time.Time `json:"written,omitzero"`
	Tag       string    `json:"tag,omitempty"`
	Warning   string    `json:"warning,omitempty"`
	By        int       `json:"by,omitempty"`
}

// A commitment says what came of a commit. Messages of kind Committed have a list of them.
type commitment struct {
	N   int64  `json:"n"`
	Tag string `json:"tag,omitempty"`
	Err string `json:"err,omitempty"`
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("share: " + err.Error()) // unreachable: the types above have no values that cannot be encoded
	}
	return text
}

func decode(m *Message, v any) error {
	if err := json.Unmarshal(m.Body, v); err != nil {
		return fmt.Errorf("message %d of another process: %w", m.Number, err)
	}
	return nil
}

// requestOf returns the request for an action whose content is to be at a path. It has what
// is needed to fetch the content from the address of the resource.
func requestOf(n int64, a *plan.Action, path string) request {
	bare := plan.Action{Verb: plan.Fetch, Held: a.Held, FileMissing: a.FileMissing}
	bare.Held.Links, bare.Held.Stated, bare.Held.Sets = nil, nil, nil
	r := &a.Resource
	bare.Resource = desired.Resource{URI: r.URI, Change: r.Change, Lastmod: r.Lastmod, Length: r.Length, Hashes: r.Hashes, Type: r.Type, Coding: r.Coding}
	return request{N: n, Action: bare.AppendTo(nil), Path: []byte(path), Tag: a.Held.Tag}
}

func (r *request) action() (*plan.Action, error) {
	a, err := plan.Decode(r.Action)
	if err != nil {
		return nil, err
	}
	a.Place, a.Held.Tag = string(r.Path), r.Tag
	return a, nil
}

// answerOf returns the answer to a request with this outcome.
func answerOf(n int64, o *transfer.Outcome) answer {
	if o.Err != nil || o.Postponed || o.Adopted || o.Writer == nil && !o.Unchanged {
		return answer{N: n}
	}
	h := &o.Held
	bare := journal.Held{URI: h.URI, Length: h.Length, Hashes: h.Hashes, ETag: h.ETag, Modified: h.Modified}
	return answer{N: n, OK: true, Unchanged: o.Unchanged, Held: desired.AppendHeld(nil, &bare), Written: h.Written, Tag: h.Tag, Warning: o.Warning, By: int(o.By)}
}

// outcome returns the outcome of an action that an answer describes, without the Writer.
func (r *answer) outcome(a *plan.Action, set int, path string) (transfer.Outcome, error) {
	got, _, err := desired.DecodeHeld(r.Held)
	if err != nil {
		return transfer.Outcome{}, err
	}
	h := plan.NewHeld(a, set, path)
	h.Length, h.Hashes, h.ETag, h.Modified = got.Length, got.Hashes, got.ETag, got.Modified
	h.Written, h.Tag = r.Written, r.Tag
	return transfer.Outcome{Action: a, Held: h, Unchanged: r.Unchanged, Warning: r.Warning, By: transfer.Means(r.By), Sealed: true}, nil
}

// isShared reports whether another process can do what an action needs: a request to the
// address of the resource is all of it.
func isShared(f *transfer.Fetcher, a *plan.Action) bool {
	return a.Verb == plan.Fetch && !a.Conditional && !a.Rehash && a.From == "" && a.Place == "" && a.Stated == nil && !a.Preferred &&
		a.Member.Package == 0 && a.Change != unknown && len(a.Patches) == 0 && f.Stored == nil && !f.OfPast && !transfer.HasMirrors(a)
}
