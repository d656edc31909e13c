package journaltest

import (
	"bytes"
	"context"
	"slices"

	"lockstep/blob/faultfs"
	"lockstep/destination/journal"
)

// A Faulty is a Journal whose records fail as Faults say.
type Faulty struct {
	journal.Journal
	Faults *faultfs.Faults
}

// Record implements [journal.Journal].
func (j *Faulty) Record(ctx context.Context, b journal.Batch) error {
	if err := j.Faults.Step(); err != nil {
		return err
	}
	return j.Journal.Record(ctx, b)
}

// An Older is a Journal as an earlier version of the program writes it: it keeps
// nothing of what the Source states.
type Older struct {
	journal.Journal
	Newer bool // the program has been replaced
}

// Record implements [journal.Journal].
func (j *Older) Record(ctx context.Context, b journal.Batch) error {
	if !j.Newer {
		b.Put = slices.Clone(b.Put)
		for i := range b.Put {
			b.Put[i].Type, b.Put[i].Links, b.Put[i].Stated = "", nil, nil
		}
		for name, doc := range b.Save {
			b.Save[name] = bytes.ReplaceAll(doc, []byte(`"described":true`), []byte(`"described":false`))
		}
	}
	return j.Journal.Record(ctx, b)
}
