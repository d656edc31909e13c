package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// check looks at one resource.
func (s *setAudit) check(ctx context.Context, act *plan.Action) (verdict, error) {
	unlisted := act.Verb == plan.Remove || act.Verb == plan.Release
	switch {
	case act.Verb == plan.Skip:
		return s.checkOrphan(ctx, act)
	case unlisted && (s.listed || act.Class != 0):
		return s.verdict(act, Extra, whyExtra(act)), nil
	case act.Verb == plan.Refuse && !act.IsHeld():
		return s.verdict(act, Missing, "refused: "+act.Refused), nil
	case !act.IsHeld() && s.plain:
		return s.compareFile(ctx, act)
	case !act.IsHeld() && s.excused[act.URI]:
		return s.verdict(act, Unverifiable, "a representation that the server does not serve; another one is kept"), nil
	case !act.IsHeld():
		return s.verdict(act, Missing, s.whyMissing(ctx, act)), nil
	case !plan.HasSet(act.Held.Sets, s.set.Number): // another set's
		return verdict{}, nil
	case act.Verb == plan.Fetch && !act.Conditional && !act.OwnFetched():
		if len(act.Held.Hashes) == 0 && s.seen(act) {
			return verdict{}, nil // it was marked just now, or reported
		}
		return s.stale(ctx, act)
	case s.seen(act):
		return verdict{}, nil
	}
	v, err := s.checkFile(ctx, act)
	if v.finding.Kind == "" && err == nil && act.Conditional && !act.Rehash {
		v.finding = s.verdict(act, Unverifiable, "the Source states neither a hash we know, nor length and lastmod").finding
	}
	return v, err
}

// verdict is that of something found of a resource.
func (s *setAudit) verdict(act *plan.Action, kind FindingKind, cause string) verdict {
	f := Finding{Kind: kind, Set: s.set.Name, URI: act.URI, Path: act.Held.Path, Cause: cause}
	if act.Class != 0 && !act.Gone {
		f.Expected = factsOfWant(&act.Resource)
	}
	if act.IsHeld() {
		f.Found = factsOf(&act.Held)
	}
	return verdict{finding: f}
}

// isOrphan reports whether a resource is held only by sets that are not there
// any more: what it should be, the Journal alone knows. Each passes by once.
func (s *setAudit) isOrphan(act *plan.Action) bool {
	if !act.IsHeld() || s.named || !s.planner.Prune || len(s.d.opts.Sets) > 0 {
		return false
	}
	for _, n := range act.Held.Sets {
		if s.numbers[n] {
			return false
		}
	}
	return true
}

// checkOrphan looks at the file of one. What only withdrawn sets contained is
// extra; of a set that could not be read, nothing but the file can be checked.
func (s *setAudit) checkOrphan(ctx context.Context, act *plan.Action) (verdict, error) {
	if !slices.ContainsFunc(act.Held.Sets, func(n int) bool { return !s.withdrawn[n] }) {
		v := s.verdict(act, Extra, "the Source has withdrawn the set it was in; sync --baseline --max-delete 100 removes it")
		v.orphan, v.finding.Set = true, ""
		return v, nil
	}
	v, err := s.checkFile(ctx, act)
	if v.orphan = true; v.finding.Kind != "" {
		v.finding.Set = ""
		v.finding.Cause += "; the set it is in was not read"
	}
	return v, err
}

// stale returns the verdict on a resource that is not as the Source states. If
// it is to be repaired, its file is examined, too: the new version may be the
// same bytes, and is then not written.
func (s *setAudit) stale(ctx context.Context, act *plan.Action) (verdict, error) {
	v := s.verdict(act, Stale, describeStale(&act.Held, &act.Resource))
	if !s.opts.Fix || s.seen(act) {
		return v, nil
	}
	file, err := s.checkFile(ctx, act)
	v.damaged, v.read = file.damaged, file.read
	return v, err
}

// seen reports whether the file was looked at as that of a set before.
func (s *setAudit) seen(act *plan.Action) bool {
	for _, b := range s.before {
		if plan.HasSet(act.Held.Sets, b.Number) {
			return true
		}
	}
	return false
}

func (s *setAudit) whyMissing(ctx context.Context, act *plan.Action) string {
	if path, err := s.paths.Path(act.URI); err == nil {
		if _, err := s.d.store.Stat(ctx, path); err == nil {
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
func (s *setAudit) checkFile(ctx context.Context, act *plan.Action) (verdict, error) {
	if s.d.isForgetful() {
		return verdict{}, nil // there are no files
	}
	h := &act.Held
	broken := func(kind FindingKind, cause string, found *Facts) (verdict, error) {
		v := s.verdict(act, kind, cause)
		v.finding.Expected, v.finding.Found, v.damaged = factsOf(h), found, true
		return v, nil
	}
	r, info, err := s.open(ctx, h, act.Rehash)
	switch {
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case errors.Is(err, blob.ErrNotExist):
		return broken(Missing, "the file is gone", nil)
	case errors.Is(err, blob.ErrDirectory):
		return broken(Corrupt, "a directory is in its place", nil)
	case errors.Is(err, blob.ErrForeign):
		return broken(Corrupt, "something other than a file is in its place", nil)
	case isShortage(err):
		return verdict{}, err
	case err != nil:
		return broken(Corrupt, err.Error(), nil)
	}
	if r != nil {
		defer r.Close()
	}
	found := &Facts{Length: &info.Size, Lastmod: info.ModTime}
	if info.Size != h.Length {
		return broken(Corrupt, fmt.Sprintf("the file has %d bytes, it was written with %d", info.Size, h.Length), found)
	}
	if len(h.Hashes) == 0 {
		return broken(Stale, describeStale(h, &act.Resource), found)
	}
	if r == nil {
		return verdict{}, nil
	}
	algs := content.Algorithms(h.Hashes)
	if act.Rehash {
		algs |= content.Algorithms(act.Hashes)
	}
	n, got, err := s.sums.Sum(ctx, r, algs)
	switch {
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case err != nil:
		return broken(Corrupt, err.Error(), found)
	}
	for _, was := range h.Hashes {
		if digest := got.Get(was.Algorithm); digest != "" && digest != was.Digest {
			is := resourcesync.Hash{Algorithm: was.Algorithm, Digest: digest}
			found.Hash = wording.Hashes(got)
			v, err := broken(Corrupt, fmt.Sprintf("the file has %s, it was written with %s", is, was), found)
			v.read = n
			return v, err
		}
	}
	if act.Rehash && content.Compare(got, act.Hashes) == content.Different {
		return s.stale(ctx, act)
	}
	return verdict{verified: true, read: n}, nil
}

// open opens the file of h if it must be read, or all files are to be; else it only
// looks at it.
func (s *setAudit) open(ctx context.Context, h *journal.Held, must bool) (blob.Reader, blob.Info, error) {
	if !s.opts.Content && !must {
		info, err := s.d.store.Stat(ctx, h.Path)
		if err != nil || info.Size != h.Length || !touched(h, &info) {
			return nil, info, err
		}
	}
	r, err := s.d.store.Open(ctx, h.Path)
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

// isShortage reports whether err is due to this process, not to a file.
func isShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
