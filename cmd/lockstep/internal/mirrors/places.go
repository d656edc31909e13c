package mirrors

import (
	"fmt"
	"path/filepath"
	"strings"

	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/internal/statedir"
	"lockstep/storage"
)

// A place is where a mirror has its resources, its state or its events.
type place struct {
	mirror string
	key    string // what it is in the configuration
	value  string // as it is written there
	real   string // one spelling for each place; parts are separated by slashes
}

// overlaps returns an error for each two mirrors of which one would write to places of the
// other.
func overlaps(entries []*entry) (wrong []error) {
	var all []place
	for _, e := range entries {
		places := placesOf(e)
		for _, p := range places {
			for _, o := range all {
				if err := p.overlaps(&o); err != nil {
					wrong = append(wrong, err)
				}
			}
		}
		all = append(all, places...)
	}
	return wrong
}

// placesOf returns the places of a mirror. What cannot be one is refused when it is opened.
func placesOf(e *entry) (places []place) {
	sync := &e.flags.Sync
	add := func(key, value, real string) {
		places = append(places, place{mirror: e.name, key: key, value: value, real: real})
	}
	if mirror.IsBucket(sync.Dest) {
		if bucket, prefix, err := s3.ParseURL(sync.Dest); err == nil {
			add("dest", sync.Dest, "s3:"+bucket+"/"+strings.Trim(prefix, "/"))
		}
	} else if real, err := statedir.RealPath(sync.Dest); err == nil {
		add("dest", sync.Dest, filepath.ToSlash(real))
	}
	for _, p := range []struct{ key, value string }{{"state", sync.State}, {"events", sync.Events}} {
		if storage.IsURL(p.value) {
			add(p.key, storage.WithoutPassword(p.value), storage.WithoutPassword(p.value))
		} else if real, err := statedir.RealPath(p.value); err == nil && p.value != "" {
			add(p.key, p.value, filepath.ToSlash(real))
		}
	}
	return places
}

// overlaps returns an error if two places of different mirrors are one, or one is within the
// resources of the other.
func (p *place) overlaps(o *place) error {
	same := p.real == o.real || p.key == o.key && !strings.HasPrefix(p.real, "s3:") && mirror.SameDir(p.value, o.value)
	switch {
	case same && p.key == o.key:
		return fmt.Errorf("mirrors %s and %s have the same %s: %s and %s", o.mirror, p.mirror, p.key, o.value, p.value)
	case o.key == "dest" && (same || isBelow(p.real, o.real)):
		return inside(p, o)
	case p.key == "dest" && (same || isBelow(o.real, p.real)):
		return inside(o, p)
	}
	return nil
}

// inside is the error for a place within the resources of another mirror.
func inside(in, outer *place) error {
	return fmt.Errorf("mirrors %s and %s: the %s of %s, %s, is inside the dest of %s, %s", outer.mirror, in.mirror, in.key, in.mirror, in.value, outer.mirror, outer.value)
}

// isBelow reports whether a place is below another.
func isBelow(real, outer string) bool {
	return strings.HasPrefix(real, strings.TrimSuffix(outer, "/")+"/")
}
