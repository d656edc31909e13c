package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/blob"
	"lockstep/resourcesync"
)

// PutPatch publishes a patch for a change of set that is about to be applied to
// the catalog, and returns its address, under which the bytes never change
// (RS-REL-31). Whoever makes the change gives it the link; a patch no change
// names any more goes with [Source.SweepPatches].
func (s *Source) PutPatch(ctx context.Context, set, mediaType string, patch []byte) (href string, err error) {
	ext := patchExtension(mediaType)
	if ext == "" {
		return "", fmt.Errorf("publish patch of set %s: media type %q is none of ours", set, mediaType)
	}
	sum := sha256.Sum256(patch)
	name := patchesDir(set) + hex.EncodeToString(sum[:]) + ext
	s.patching.RLock()
	defer s.patching.RUnlock()
	if err := s.commit(ctx, name, patch, s.opts.Now()); err != nil {
		return "", fmt.Errorf("publish patch of set %s: %w", set, err)
	}
	return s.base.uri(name), nil
}

// patchTypes are the media types of patches by the extension of their names.
var patchTypes = [...]struct{ ext, mediaType string }{
	{".dcz", "application/vnd.lockstep.dcz"},
	{".json-patch", "application/json-patch+json"},
}

// patchExtension returns the extension of the patches of a media type, or "".
func patchExtension(mediaType string) string {
	for _, t := range patchTypes {
		if t.mediaType == mediaType {
			return t.ext
		}
	}
	return ""
}

// SweepPatches removes the patches of all sets that no change in the catalog
// names any more, once they are older than the grace period: a change may be
// about to name a younger one, and who has an older Change List may be about to
// ask for it. It returns how many.
func (s *Source) SweepPatches(ctx context.Context) (removed int, err error) {
	var errs []error
	for _, set := range s.opts.Sets {
		n, err := s.sweepPatches(ctx, set.Name)
		removed += n
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep patches of set %s: %w", set.Name, err))
		}
	}
	return removed, errors.Join(errs...)
}

func (s *Source) sweepPatches(ctx context.Context, set string) (removed int, err error) {
	var needed []uint64 // sorted; where two patches begin alike, one stays for the other's sake
	known := false
	for info, err := range s.docs.List(ctx, patchesDir(set)) {
		if err != nil {
			return removed, err
		}
		key, ok := patchKey(info.Name)
		if !ok || s.opts.Now().Sub(info.ModTime) < s.opts.Grace {
			continue
		}
		if !known {
			if needed, err = s.neededPatches(ctx, set); err != nil {
				return removed, err
			}
			known = true
		}
		if _, found := slices.BinarySearch(needed, key); found {
			continue
		}
		gone, err := s.removePatch(ctx, info)
		if err != nil {
			return removed, err
		}
		removed += gone
	}
	return removed, nil
}

// removePatch removes a patch, unless it has just been published again.
func (s *Source) removePatch(ctx context.Context, seen blob.Info) (int, error) {
	s.patching.Lock()
	defer s.patching.Unlock()
	now, err := s.docs.Stat(ctx, seen.Name)
	if errors.Is(err, blob.ErrNotExist) || err == nil && s.opts.Now().Sub(now.ModTime) < s.opts.Grace {
		return 0, nil
	}
	if err == nil {
		err = s.docs.Remove(ctx, seen.Name)
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// neededPatches returns the keys of the patches that changes name.
func (s *Source) neededPatches(ctx context.Context, set string) ([]uint64, error) {
	prefix := s.base.uri(patchesDir(set))
	var keys []uint64
	for c, err := range s.catalog.Changes(ctx, s.capabilityList(set), 0) {
		if err != nil {
			return nil, err
		}
		for i := range c.Links {
			l := &c.Links[i]
			if l.Rel != resourcesync.RelPatch || !strings.HasPrefix(l.Href, prefix) {
				continue
			}
			if key, ok := patchKey(patchesDir(set) + l.Href[len(prefix):]); ok {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// patchKey returns what a patch is known by while sweeping: the beginning of
// its hash, which is in its name.
func patchKey(name string) (uint64, bool) {
	_, file, _ := strings.Cut(strings.TrimPrefix(name, documentsDir), "/")
	digits, ext, ok := strings.Cut(file, ".")
	if !ok || len(digits) != 2*sha256.Size || patchTypeOf("."+ext) == "" {
		return 0, false
	}
	sum, err := hex.DecodeString(digits[:16])
	if err != nil {
		return 0, false
	}
	return binary.BigEndian.Uint64(sum), true
}

// patchTypeOf returns the media type of patches whose names have the extension
// ext, or "".
func patchTypeOf(ext string) string {
	for _, t := range patchTypes {
		if t.ext == ext {
			return t.mediaType
		}
	}
	return ""
}
