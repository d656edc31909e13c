package destination

import (
	"context"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/audit"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// MarkRestored records in the Journal of a mirror that it is older than the mirror, as after it was restored from a
// copy, or a standby that was behind has become the server of its database. The next run examines the files of the
// mirror and compares all of each set. Files that the Journal does not know are taken over if they are right; those at
// the place of a resource are replaced otherwise, and those of no resource are reported. A Journal without a mirror stays
// as it is.
func MarkRestored(ctx context.Context, j journal.Journal) error {
	var m saved.Mirror
	if known, err := saved.Load(ctx, j, saved.DocMirror, &m); err != nil || !known {
		return err
	}
	save := map[string][]byte{localcheck.Doc: nil}
	for uri, n := range m.Numbers {
		st := saved.Set{URI: uri, Number: n}
		if _, err := saved.Load(ctx, j, saved.DocSet(n), &st); err != nil {
			return err
		}
		st.Restored = true
		save[saved.DocSet(n)] = saved.Encode(&st)
	}
	if err := j.Record(ctx, journal.Batch{Save: save}); err != nil {
		return fmt.Errorf("record that the mirror was restored: %w", err)
	}
	return nil
}

// reportUnrecorded warns of files of no resource once all sets were compared whose states had been restored: the Source
// may have deleted their resources after the copy was made.
func reportUnrecorded(ctx context.Context, s *session, sets []*setState) {
	if !s.restored || s.d.isForgetful() || len(sets) == 0 {
		return
	}
	for _, set := range sets {
		if set.Restored {
			return
		}
	}
	s.restored = false
	n, first := 0, ""
	err := audit.Unrecorded(ctx, s.d.store, s.d.journal, func(info blob.Info) {
		if n++; n == 1 {
			first = info.Name
		}
	})
	switch {
	case err != nil:
		s.warn("", fmt.Sprintf("look for files of no resource%s: %v", s.d.inDest(), err))
	case n > 0:
		s.warn("", fmt.Sprintf("the state is older than the mirror: files%s are of no resource, %d in all, such as %s; the Source may have deleted their resources since; lockstep audit names them", s.d.inDest(), n, first))
	}
}
