package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// A verdict is the result for one resource. Without a Finding it is right.
type verdict struct {
	Finding  report.Finding // Kind is empty if there is none
	Orphan   bool           // no set has it any more
	Damaged  bool           // the file is not there, or not what was written
	Verified bool           // its bytes were read, and are right
	Read     int64          // bytes
}

// check examines one resource. It may be called concurrently.
func (x *examination) check(ctx context.Context, act *plan.Action) (verdict, error) {
	unlisted := act.Verb == plan.Remove || act.Verb == plan.Release
	switch {
	case act.Verb == plan.Skip:
		return x.checkOrphan(ctx, act)
	case unlisted && (x.set.Listed || act.Class != 0):
		return x.verdictOf(act, report.Extra, whyExtra(act)), nil
	case act.Verb == plan.Refuse && !act.IsHeld():
		return x.verdictOf(act, report.Missing, "refused: "+act.Refused), nil
	case !act.IsHeld() && x.audit.Plain:
		return x.compareFile(ctx, act)
	case !act.IsHeld() && x.excused[act.URI]:
		return x.verdictOf(act, report.Unverifiable, "a representation that the server does not serve; another one is kept"), nil
	case !act.IsHeld():
		return x.verdictOf(act, report.Missing, x.whyMissing(ctx, act)), nil
	case !plan.HasSet(act.Held.Sets, x.set.State.Number): // another set's
		return verdict{}, nil
	case act.Verb == plan.Refuse && plan.Compare(&act.Held, &act.Resource) == content.Different:
		return x.verdictOf(act, report.Stale, "refused: "+act.Refused+"; "+describeStale(&act.Held, &act.Resource)), nil
	case act.Verb == plan.Fetch && !act.Conditional && !act.OwnFetched():
		if len(act.Held.Hashes) == 0 && x.seen(act) {
			return verdict{}, nil // it was marked just now, or reported
		}
		return x.stale(ctx, act)
	case x.seen(act):
		return verdict{}, nil
	}
	v, err := x.checkFile(ctx, act)
	switch {
	case v.Finding.Kind != "" || err != nil:
	case act.Verb == plan.Refuse && plan.Compare(&act.Held, &act.Resource) == content.Unknown:
		v.Finding = x.verdictOf(act, report.Unverifiable, "refused: "+act.Refused).Finding
	case act.Conditional && !act.Rehash:
		v.Finding = x.verdictOf(act, report.Unverifiable, "the Source states neither a hash we know, nor length and lastmod").Finding
	}
	return v, err
}

// verdictOf returns a finding of a resource.
func (x *examination) verdictOf(act *plan.Action, kind report.FindingKind, cause string) verdict {
	f := report.Finding{Kind: kind, Set: x.set.State.Name, URI: act.URI, Path: act.Held.Path, Cause: cause}
	if act.Class != 0 && !act.Gone {
		f.Expected = stated(&act.Resource)
	}
	if act.IsHeld() {
		f.Found = written(&act.Held)
	}
	return verdict{Finding: f}
}

// checkOrphan examines the file of a resource that no set has any more. What only
// withdrawn sets contained is extra; of a set that could not be read, nothing but the
// file can be checked.
func (x *examination) checkOrphan(ctx context.Context, act *plan.Action) (verdict, error) {
	if !slices.ContainsFunc(act.Held.Sets, func(n int) bool { return !x.audit.Withdrawn[n] }) {
		v := x.verdictOf(act, report.Extra, "the Source has withdrawn the set it was in; sync --baseline --max-delete 100 removes it")
		v.Orphan, v.Finding.Set = true, ""
		return v, nil
	}
	v, err := x.checkFile(ctx, act)
	if v.Orphan = true; v.Finding.Kind != "" {
		v.Finding.Set = ""
		v.Finding.Cause += "; the set it is in was not read"
	}
	return v, err
}

// stale returns the verdict on a resource that is not as the Source states. If it is
// to be repaired, its file is examined, too: if the new version has the same bytes, it
// is not written.
func (x *examination) stale(ctx context.Context, act *plan.Action) (verdict, error) {
	v := x.verdictOf(act, report.Stale, describeStale(&act.Held, &act.Resource))
	if !x.audit.Fix || x.seen(act) {
		return v, nil
	}
	file, err := x.checkFile(ctx, act)
	v.Damaged, v.Read = file.Damaged, file.Read
	return v, err
}

// seen reports whether the file was examined as that of another set.
func (x *examination) seen(act *plan.Action) bool {
	for _, n := range x.audit.before {
		if plan.HasSet(act.Held.Sets, n) {
			return true
		}
	}
	return false
}

func (x *examination) whyMissing(ctx context.Context, act *plan.Action) string {
	if path, err := x.set.Paths.Path(act.URI); err == nil {
		if _, err := x.audit.Store.Stat(ctx, path); err == nil {
			return fmt.Sprintf("a file that sync did not make is in its place (%q)", path)
		}
	}
	return "it was never fetched, or is pending"
}

func whyExtra(act *plan.Action) string {
	switch {
	case act.Class != 0 && !act.Gone:
		return "it is not selected"
	case act.Instead != "":
		return "the representation to be kept of it is " + act.Instead
	}
	return "the Source does not list it"
}

// checkFile compares the file of a resource that is as the Source states with what the
// Journal knows of its bytes.
func (x *examination) checkFile(ctx context.Context, act *plan.Action) (verdict, error) {
	if x.audit.Forgetful {
		return verdict{}, nil // there are no files
	}
	h := &act.Held
	broken := func(kind report.FindingKind, cause string, found *report.Facts) (verdict, error) {
		v := x.verdictOf(act, kind, cause)
		v.Finding.Expected, v.Finding.Found, v.Damaged = written(h), found, true
		return v, nil
	}
	r, info, err := x.open(ctx, h, act.Rehash)
	switch {
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case errors.Is(err, blob.ErrNotExist):
		return broken(report.Missing, "the file is gone", nil)
	case errors.Is(err, blob.ErrDirectory):
		return broken(report.Corrupt, "a directory is in its place", nil)
	case errors.Is(err, blob.ErrForeign):
		return broken(report.Corrupt, "something other than a file is in its place", nil)
	case failure.IsShortage(err):
		return verdict{}, err
	case err != nil:
		return broken(report.Corrupt, err.Error(), nil)
	}
	if r != nil {
		defer r.Close()
	}
	found := &report.Facts{Length: &info.Size, Lastmod: info.ModTime}
	if info.Size != h.Length {
		return broken(report.Corrupt, fmt.Sprintf("the file has %d bytes, it was written with %d", info.Size, h.Length), found)
	}
	if len(h.Hashes) == 0 {
		return broken(report.Stale, describeStale(h, &act.Resource), found)
	}
	if r == nil {
		return verdict{}, nil
	}
	algs := content.Strongest(h.Hashes)
	compare := act.Rehash || x.audit.Hashers.All && !act.Gone && content.HasKnown(act.Hashes)
	switch {
	case x.audit.Hashers.All:
		algs = content.All(h.Hashes) | content.All(act.Hashes)
	case compare:
		algs |= content.Strongest(act.Hashes)
	}
	n, got, err := x.audit.Hashers.Sum(ctx, r, algs)
	switch {
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case err != nil:
		return broken(report.Corrupt, err.Error(), found)
	}
	for _, was := range h.Hashes {
		if digest := got.Get(was.Algorithm); digest != "" && digest != was.Digest {
			is := resourcesync.Hash{Algorithm: was.Algorithm, Digest: digest}
			found.Hash = wording.Hashes(got)
			v, err := broken(report.Corrupt, fmt.Sprintf("the file has %s, it was written with %s", is, was), found)
			v.Read = n
			return v, err
		}
	}
	if compare && content.Compare(got, act.Hashes) == content.Different {
		if act.Rehash {
			return x.stale(ctx, act)
		}
		found.Hash = wording.Hashes(got)
		v := x.verdictOf(act, report.Stale, "the Source states "+wording.Hashes(act.Hashes)+", the file has "+found.Hash)
		v.Read, v.Finding.Found = n, found
		return v, nil
	}
	return verdict{Verified: true, Read: n}, nil
}

// open opens the file of h if it must be read, or all files are read; otherwise it only
// returns what the Store knows of it.
func (x *examination) open(ctx context.Context, h *journal.Held, must bool) (blob.Reader, blob.Info, error) {
	if !x.audit.Content && !must {
		info, err := x.audit.Store.Stat(ctx, h.Path)
		if err != nil || info.Size != h.Length || !touched(h, &info) {
			return nil, info, err
		}
	}
	r, err := x.audit.Store.Open(ctx, h.Path)
	if err != nil {
		return nil, blob.Info{}, err
	}
	return r, r.Info(), nil
}

// touched reports whether a file has another modification time, or entity tag, than
// was recorded, so that its content must be read.
func touched(h *journal.Held, info *blob.Info) bool {
	switch {
	case info.Version != "":
		return h.Tag != info.Version && (h.Tag != "" || !localcheck.IsMD5Of(info.Version, h.Hashes))
	case !h.Written.IsZero():
		return !info.ModTime.Truncate(time.Microsecond).Equal(h.Written)
	}
	return !h.Lastmod.IsZero() && !info.ModTime.Truncate(time.Microsecond).Equal(h.Lastmod)
}
