package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
)

// stateVersion numbers the layout of state. Older ones are read, newer refused.
const stateVersion = 1

// A state is what a Source remembers of a set's published documents, kept in
// one JSON blob beside them. It is written twice by each publication: before
// the entry documents are switched, with Switching set and all else as it was,
// and after. A state that is lost, or left Switching by a crash, is made anew
// from the catalog: then more is written than need be, never anything wrong.
type state struct {
	Version        int          `json:"version"`
	CapabilityList string       `json:"capability_list"` // the set; documents of another base URL are not ours to continue
	Switching      bool         `json:"switching,omitempty"`
	Stamp          time.Time    `json:"stamp"` // modification time of the documents written last; rises
	List           *listState   `json:"resource_list,omitempty"`
	Changes        *changeState `json:"change_list,omitempty"`
	Retired        []retired    `json:"retired,omitempty"`
}

// A listState is a published Resource List.
type listState struct {
	At        time.Time   `json:"at"`
	Seq       catalog.Seq `json:"seq"` // newest change that At is known to cover
	Resources int64       `json:"resources"`
	Parts     []string    `json:"parts,omitempty"` // names; none when the list is one document
}

// A changeState is a published Change List: all changes numbered above After,
// through Through. Those of closed parts come first, the open list has the rest.
type changeState struct {
	After       catalog.Seq  `json:"after"`
	From        time.Time    `json:"from"`
	Closed      []closedPart `json:"closed,omitempty"`
	Open        openPart     `json:"open"`
	Through     catalog.Seq  `json:"through"`
	ThroughTime time.Time    `json:"through_time,omitzero"` // of that change; zero if it is not ours to know
}

// A closedPart is a Change List that will never be written again (RS-MD-09).
type closedPart struct {
	Name  string      `json:"name"`
	From  time.Time   `json:"from"`
	Until time.Time   `json:"until"`
	Last  catalog.Seq `json:"last"`
}

// An openPart is the Change List that grows.
type openPart struct {
	Name  string      `json:"name,omitempty"` // empty: the entry document itself
	From  time.Time   `json:"from"`
	After catalog.Seq `json:"after"`
}

// retired is a part that no document names any more.
type retired struct {
	Name string    `json:"name"`
	Gone time.Time `json:"gone"`        // since when
	At   time.Time `json:"at,omitzero"` // of the Resource List it belonged to
}

// load returns the state of the set's documents; a new one where there is none
// to continue from.
func (s *Source) load(ctx context.Context, set, capabilityList string) (*state, error) {
	if st := s.states[set]; st != nil {
		return st, nil
	}
	fresh := &state{Version: stateVersion, CapabilityList: capabilityList}
	st := new(state)
	data, _, err := s.read(ctx, stateName(set))
	if err != nil || data == nil {
		return fresh, err
	}
	if err := json.Unmarshal(data, st); err != nil {
		s.opts.Logger.WarnContext(ctx, "publishing state is unreadable and will be made anew", slog.String("set", set), slog.Any("err", err))
		return fresh, nil
	}
	if st.Version > stateVersion {
		return nil, fmt.Errorf("read %s: written by a newer version (layout %d, this one knows %d)", stateName(set), st.Version, stateVersion)
	}
	if st.CapabilityList != capabilityList {
		return fresh, nil
	}
	return st, nil
}

// save makes st what is remembered.
func (s *Source) save(ctx context.Context, set string, st *state) error {
	data, err := json.MarshalIndent(st, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", stateName(set), err)
	}
	delete(s.states, set) // should the commit fail, what holds is in the blob
	if err := s.commit(ctx, stateName(set), append(data, '\n'), time.Time{}); err != nil {
		return err
	}
	s.states[set] = st
	return nil
}

// read returns a blob of ours, which is known to be small. What does not exist
// is nil.
func (s *Source) read(ctx context.Context, name string) ([]byte, time.Time, error) {
	r, err := s.docs.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := io.ReadAll(r)
	_ = r.Close() // opened for reading only
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read %s: %w", name, err)
	}
	return data, r.Info().ModTime, nil
}

// commit writes a small blob.
func (s *Source) commit(ctx context.Context, name string, data []byte, mod time.Time) error {
	w, err := s.create(ctx, name, data, mod)
	if err != nil {
		return err
	}
	defer w.Close() // does nothing after Commit
	return s.docs.Commit(ctx, w)
}

func (s *Source) create(ctx context.Context, name string, data []byte, mod time.Time) (blob.Writer, error) {
	w, err := s.docs.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		_ = w.Close() // the write's error says more
		return nil, err
	}
	if !mod.IsZero() {
		w.SetModTime(mod)
	}
	return w, nil
}
