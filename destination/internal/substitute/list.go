package substitute

import (
	"context"
	"fmt"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// ReadList stages the resources of the set: by the Resource List, or if that cannot
// be read, by the Resource Dump, if all of that can. ListURI is then the URI of the
// document that was read.
func (d *Documents) ReadList(ctx context.Context) (snap entries.Snapshot, err error) {
	st := d.Set
	d.ListURI = st.Lists
	failures, err := d.attempt(func() (err error) {
		snap, err = d.Reader.ReadList(ctx, st.Lists)
		return err
	})
	if err != nil {
		return snap, err
	}
	kind := string(st.ListCapability())
	if snap.Complete || len(failures) == 0 {
		d.Outages.Works(kind)
		behind := behindDump(st, snap.At)
		if behind == nil || d.Baseline {
			d.fail(failures)
			return snap, nil
		}
		failures = append(failures, failure{st.Lists, behind})
	} else {
		cause := gravest(failures)
		may := d.Outages.MayReplace(kind, cause.err)
		may = may || d.ReplacesChanges() && d.Outages.IsLasting(string(st.ChangesCapability())) // the set has waited long enough
		if st.Dump == "" || !may {
			if st.Dump != "" {
				d.warnWaiting(st.ListCapability(), resourcesync.ResourceDump, cause.uri)
			}
			d.fail(failures)
			return snap, nil
		}
	}
	var dump entries.Snapshot
	others, err := d.attempt(func() (err error) {
		dump, err = d.Reader.ReadList(ctx, st.Dump)
		return err
	})
	if err != nil {
		return snap, err
	}
	if !dump.Whole() || !dump.Dump {
		for _, f := range others {
			d.WarnDump(f.uri, f.err.Error())
		}
		return d.Reader.ReadList(ctx, st.Lists) // what can be read of it; failures are reported now
	}
	d.ListURI, d.list = st.Dump, failures
	return dump, nil
}

// behindDump returns an error if the Resource List, of an instant, is older than the
// Resource Dump that replaced it: then the dump is used again, until the list is
// newer. The Source did not go back in time.
func behindDump(st *saved.Set, at resourcesync.Datetime) error {
	if st.Dump == "" || st.ListFrom != st.Dump || at.IsZero() || !saved.Time(at).Before(st.ListAt) {
		return nil
	}
	return fmt.Errorf("it is as of %s, and the Resource Dump that was applied in its place as of %s", wording.Time(at.Time()), wording.Time(st.ListAt))
}

// WarnDump warns that the Resource Dump cannot replace the Resource List.
func (d *Documents) WarnDump(uri, why string) {
	d.Warn(uri, fmt.Sprintf("set %s: the Resource Dump cannot be used in place of the Resource List: %s", d.Set.Name, why))
}

// ReplacesList reports whether the Resource Dump was read in place of the Resource
// List.
func (d *Documents) ReplacesList() bool { return len(d.list) > 0 }

// FailList reports that the Resource List could not be read.
func (d *Documents) FailList() { d.fail(d.list) }

// AcceptDump reports that the Resource Dump, of an instant, replaces the Resource
// List, and returns true. Where it is too old to show what is gone, and no changes
// are read that do, AcceptDump reports that the Resource List could not be read, and
// returns false.
func (d *Documents) AcceptDump(at resourcesync.Datetime) bool {
	if (d.Set.Changes == "" || d.ReplacesChanges()) && !d.IsFresh(at) {
		d.FailList()
		return false
	}
	d.useDump(at)
	return true
}

// useDump reports that the Resource Dump, of an instant, replaces the Resource List.
func (d *Documents) useDump(at resourcesync.Datetime) {
	f := gravest(d.list)
	unproven := ""
	if !at.IsZero() {
		unproven = fmt.Sprintf("it is as of %s", wording.Time(at.Time()))
	}
	d.Replace(report.Fallback{Missing: string(d.Set.ListCapability()), URI: f.uri, Cause: f.err.Error(),
		Used: string(resourcesync.ResourceDump), UsedURI: d.ListURI, Unproven: unproven})
}

// ListUnchanged reports whether the list is unchanged since it was last read: the
// Resource List, or the Resource Dump that replaced it and still has to.
func (d *Documents) ListUnchanged(ctx context.Context) (bool, error) {
	st := d.Set
	d.ListURI = st.Lists
	if st.ListFrom == "" || st.ListFrom != st.Dump {
		if st.ListFrom != "" {
			return false, nil
		}
		return d.Reader.ListUnchanged(ctx, st)
	}
	doc, err := d.Reader.Open(ctx, st.Lists, saved.Validators{})
	switch {
	case err == nil:
		at := doc.Header.At
		cerr := doc.Close()
		if err = behindDump(st, at); cerr != nil || err == nil {
			return false, cerr
		}
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case !d.Outages.MayReplace(string(st.ListCapability()), err):
		return false, nil
	}
	dump := *st
	dump.Lists = st.Dump
	unchanged, derr := d.Reader.ListUnchanged(ctx, &dump)
	if unchanged && derr == nil {
		d.ListURI, d.list = st.Dump, []failure{{st.Lists, err}}
		d.useDump(resourcesync.NewDatetime(st.ListAt))
	}
	return unchanged, derr
}
