package adopt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

// ErrUnverifiable reports that nothing shows whether a file matches.
var ErrUnverifiable = errors.New("the Source states neither a hash nor a length and time to verify it by")

// Names yields the names under which another program may have written the file of
// uri: its own name, and a name in which nothing is decoded.
func Names(paths *filename.Mapping, uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		own, err := paths.Path(uri)
		if err == nil && !yield(own) {
			return
		}
		if p := paths.Undecoded(uri); p != "" && p != own {
			yield(p)
		}
	}
}

// A File describes the file found under the name of a resource.
type File struct {
	Length   int64
	Modified time.Time
	Hashes   resourcesync.Hashes
	Verified bool // a hash matches
	tag      string
}

// Look reads the file at path and compares it with w. The error is a
// [content.Error] if they differ, and ErrUnverifiable if that is unknown.
func Look(ctx context.Context, p *content.Hashers, s blob.Store, path string, w *desired.Resource) (File, error) {
	r, err := s.Open(ctx, path)
	if err != nil {
		return File{}, err
	}
	defer r.Close()
	info := r.Info()
	l := File{Length: info.Size, Modified: info.ModTime, tag: info.Version}
	algs := p.Algorithms(w.Hashes)
	hashed := content.HasKnown(w.Hashes)
	if !hashed {
		if err := resembles(w, &info); err != nil {
			return l, err
		}
	}
	if l.Length, l.Hashes, err = p.Sum(ctx, r, algs); err != nil {
		return l, err
	}
	if hashed {
		_, err = content.Verify(w.Description(), l.Length, l.Hashes)
		l.Verified = err == nil
	}
	return l, err
}

// resembles compares the properties that do not require reading the file.
func resembles(w *desired.Resource, info *blob.Info) error {
	switch {
	case w.Length >= 0 && w.Length != info.Size:
		return &content.Error{URI: w.URI, What: "length", Want: fmt.Sprint(w.Length), Got: fmt.Sprint(info.Size)}
	case w.Lastmod.IsZero() || info.Version != "": // stores with versions do not preserve the time
		return ErrUnverifiable
	}
	stated, here := w.Lastmod.Time(), info.ModTime
	if !here.Equal(stated) && !here.Equal(stated.Truncate(time.Second)) && !desired.SameLastmod(here.Truncate(time.Microsecond), w.Lastmod) {
		return ErrUnverifiable
	}
	if w.Change != 0 && here.Nanosecond() == 0 {
		return ErrUnverifiable // it may have changed twice in that second
	}
	return nil
}
