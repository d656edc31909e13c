package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// A Checker examines the resources of one set. It may be used concurrently.
type Checker struct {
	Number  int    // of the set
	Name    string // of the set
	Before  []int  // numbers of the sets that were examined before
	Listed  bool   // what the Source does not list is extra
	Plain   bool   // there is no Journal: the files are all there is
	Content bool   // every file is read
	Fix     bool   // findings are going to be repaired

	Excused   map[string]bool // optional representations that were reported as not served
	Withdrawn map[int]bool    // numbers of the sets that the Source has withdrawn

	Store     blob.Store
	Forgetful bool // the Store keeps no files
	Paths     *filename.Mapping
	Sums      *content.Hashers

	// Compare compares the file of a resource in a plain directory with what the
	// Source states.
	Compare func(context.Context, *plan.Action) (Verdict, error)
}

// A Verdict is what was found of one resource. Without a Finding it is right.
type Verdict struct {
	Finding  report.Finding // Kind is empty if there is none
	Orphan   bool           // no set has it any more
	Damaged  bool           // the file is not there, or not what was written
	Verified bool           // its bytes were read, and are right
	Read     int64          // bytes
}

// Check examines one resource.
func (c *Checker) Check(ctx context.Context, act *plan.Action) (Verdict, error) {
	unlisted := act.Verb == plan.Remove || act.Verb == plan.Release
	switch {
	case act.Verb == plan.Skip:
		return c.checkOrphan(ctx, act)
	case unlisted && (c.Listed || act.Class != 0):
		return c.Verdict(act, report.Extra, whyExtra(act)), nil
	case act.Verb == plan.Refuse && !act.IsHeld():
		return c.Verdict(act, report.Missing, "refused: "+act.Refused), nil
	case !act.IsHeld() && c.Plain:
		return c.Compare(ctx, act)
	case !act.IsHeld() && c.Excused[act.URI]:
		return c.Verdict(act, report.Unverifiable, "a representation that the server does not serve; another one is kept"), nil
	case !act.IsHeld():
		return c.Verdict(act, report.Missing, c.whyMissing(ctx, act)), nil
	case !plan.HasSet(act.Held.Sets, c.Number): // another set's
		return Verdict{}, nil
	case act.Verb == plan.Fetch && !act.Conditional && !act.OwnFetched():
		if len(act.Held.Hashes) == 0 && c.seen(act) {
			return Verdict{}, nil // it was marked just now, or reported
		}
		return c.stale(ctx, act)
	case c.seen(act):
		return Verdict{}, nil
	}
	v, err := c.checkFile(ctx, act)
	if v.Finding.Kind == "" && err == nil && act.Conditional && !act.Rehash {
		v.Finding = c.Verdict(act, report.Unverifiable, "the Source states neither a hash we know, nor length and lastmod").Finding
	}
	return v, err
}

// Verdict returns a finding of a resource.
func (c *Checker) Verdict(act *plan.Action, kind report.FindingKind, cause string) Verdict {
	f := report.Finding{Kind: kind, Set: c.Name, URI: act.URI, Path: act.Held.Path, Cause: cause}
	if act.Class != 0 && !act.Gone {
		f.Expected = stated(&act.Resource)
	}
	if act.IsHeld() {
		f.Found = written(&act.Held)
	}
	return Verdict{Finding: f}
}

// checkOrphan looks at the file of one. What only withdrawn sets contained is
// extra; of a set that could not be read, nothing but the file can be checked.
func (c *Checker) checkOrphan(ctx context.Context, act *plan.Action) (Verdict, error) {
	if !slices.ContainsFunc(act.Held.Sets, func(n int) bool { return !c.Withdrawn[n] }) {
		v := c.Verdict(act, report.Extra, "the Source has withdrawn the set it was in; sync --baseline --max-delete 100 removes it")
		v.Orphan, v.Finding.Set = true, ""
		return v, nil
	}
	v, err := c.checkFile(ctx, act)
	if v.Orphan = true; v.Finding.Kind != "" {
		v.Finding.Set = ""
		v.Finding.Cause += "; the set it is in was not read"
	}
	return v, err
}

// stale returns the verdict on a resource that is not as the Source states. If
// it is to be repaired, its file is examined, too: the new version may be the
// same bytes, and is then not written.
func (c *Checker) stale(ctx context.Context, act *plan.Action) (Verdict, error) {
	v := c.Verdict(act, report.Stale, describeStale(&act.Held, &act.Resource))
	if !c.Fix || c.seen(act) {
		return v, nil
	}
	file, err := c.checkFile(ctx, act)
	v.Damaged, v.Read = file.Damaged, file.Read
	return v, err
}

// seen reports whether the file was looked at as that of a set before.
func (c *Checker) seen(act *plan.Action) bool {
	for _, n := range c.Before {
		if plan.HasSet(act.Held.Sets, n) {
			return true
		}
	}
	return false
}

func (c *Checker) whyMissing(ctx context.Context, act *plan.Action) string {
	if path, err := c.Paths.Path(act.URI); err == nil {
		if _, err := c.Store.Stat(ctx, path); err == nil {
			return fmt.Sprintf("a file that sync did not make is in its place (%q)", path)
		}
	}
	return "it was never fetched, or is owed"
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

// checkFile compares the file of a resource that is as the Source says with
// what we know of its bytes.
func (c *Checker) checkFile(ctx context.Context, act *plan.Action) (Verdict, error) {
	if c.Forgetful {
		return Verdict{}, nil // there are no files
	}
	h := &act.Held
	broken := func(kind report.FindingKind, cause string, found *report.Facts) (Verdict, error) {
		v := c.Verdict(act, kind, cause)
		v.Finding.Expected, v.Finding.Found, v.Damaged = written(h), found, true
		return v, nil
	}
	r, info, err := c.open(ctx, h, act.Rehash)
	switch {
	case ctx.Err() != nil:
		return Verdict{}, ctx.Err()
	case errors.Is(err, blob.ErrNotExist):
		return broken(report.Missing, "the file is gone", nil)
	case errors.Is(err, blob.ErrDirectory):
		return broken(report.Corrupt, "a directory is in its place", nil)
	case errors.Is(err, blob.ErrForeign):
		return broken(report.Corrupt, "something other than a file is in its place", nil)
	case failure.IsShortage(err):
		return Verdict{}, err
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
		return Verdict{}, nil
	}
	algs := content.Algorithms(h.Hashes)
	if act.Rehash {
		algs |= content.Algorithms(act.Hashes)
	}
	n, got, err := c.Sums.Sum(ctx, r, algs)
	switch {
	case ctx.Err() != nil:
		return Verdict{}, ctx.Err()
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
	if act.Rehash && content.Compare(got, act.Hashes) == content.Different {
		return c.stale(ctx, act)
	}
	return Verdict{Verified: true, Read: n}, nil
}

// open opens the file of h if it must be read, or all files are to be; else it only
// looks at it.
func (c *Checker) open(ctx context.Context, h *journal.Held, must bool) (blob.Reader, blob.Info, error) {
	if !c.Content && !must {
		info, err := c.Store.Stat(ctx, h.Path)
		if err != nil || info.Size != h.Length || !touched(h, &info) {
			return nil, info, err
		}
	}
	r, err := c.Store.Open(ctx, h.Path)
	if err != nil {
		return nil, blob.Info{}, err
	}
	return r, r.Info(), nil
}

// touched reports whether a file has another modification time, or entity tag,
// than was recorded, so that its content must be read to know whether it is the
// right one.
func touched(h *journal.Held, info *blob.Info) bool {
	switch {
	case info.Version != "":
		return h.Tag != info.Version && (h.Tag != "" || !localcheck.IsMD5Of(info.Version, h.Hashes))
	case !h.Written.IsZero():
		return !info.ModTime.Truncate(time.Microsecond).Equal(h.Written)
	}
	return !h.Lastmod.IsZero() && !info.ModTime.Truncate(time.Microsecond).Equal(h.Lastmod)
}
