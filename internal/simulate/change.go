package simulate

import (
	"context"
	"io"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// applyRows is how many updates are passed to the catalog at once.
const applyRows = 10_000

// epoch is when all resources were first modified, so that published documents
// depend only on the seed.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// populate creates the initial resources.
func (s *Source) populate(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = make([]int64, s.o.Resources)
	s.version = make([]uint32, s.o.Resources)
	for from := 0; from < s.o.Resources; from += applyRows {
		to := min(from+applyRows, s.o.Resources)
		updates := make([]catalog.Update, to-from)
		for i := range updates {
			s.alive[from+i], s.version[from+i] = int64(from+i), 1
			updates[i].Record = s.outline(int64(from+i), 1)
		}
		if err := s.put(ctx, updates); err != nil {
			return err
		}
	}
	return nil
}

// Apply makes n changes. They are the next n of the one sequence the seed
// determines, however they are divided among calls.
func (s *Source) Apply(ctx context.Context, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n > 0 {
		updates := make([]catalog.Update, 0, min(n, applyRows))
		for range cap(updates) {
			u, err := s.change()
			if err != nil {
				return err
			}
			updates = append(updates, u)
		}
		if err := s.put(ctx, updates); err != nil {
			return err
		}
		s.done += int64(len(updates))
		n -= int64(len(updates))
	}
	return nil
}

// change chooses the next change. If there is nothing to update or delete, it
// creates a resource.
func (s *Source) change() (catalog.Update, error) {
	mix := s.o.Mix
	dice := uint(s.random.Uint64N(uint64(mix.sum())))
	if dice < mix.Created || len(s.alive) == 0 {
		n := int64(len(s.version))
		if n == maxResources {
			return catalog.Update{}, errFull
		}
		s.version = append(s.version, 1)
		s.alive = append(s.alive, n)
		return catalog.Update{Record: s.outline(n, 1)}, nil
	}
	i := s.random.IntN(len(s.alive))
	n := s.alive[i]
	if dice < mix.Created+mix.Updated {
		s.version[n]++
		return catalog.Update{Record: s.outline(n, s.version[n])}, nil
	}
	s.version[n] = 0
	s.alive[i] = s.alive[len(s.alive)-1]
	s.alive = s.alive[:len(s.alive)-1]
	return catalog.Update{Record: catalog.Record{URI: s.uri(n)}, Deleted: true}, nil
}

// put hashes the new contents, on all processors, and applies the updates.
func (s *Source) put(ctx context.Context, updates []catalog.Update) error {
	workers := runtime.GOMAXPROCS(0)
	g, gctx := errgroup.WithContext(ctx)
	for w := range workers {
		g.Go(func() error {
			h := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
			buf := make([]byte, 64<<10)
			for i := w; i < len(updates); i += workers {
				if u := &updates[i]; !u.Deleted {
					if err := gctx.Err(); err != nil {
						return err
					}
					h.Reset()
					if _, err := io.CopyBuffer(h, s.content(&u.Record), buf); err != nil {
						return err
					}
					u.Hashes = h.Sum()
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := s.cat.Apply(ctx, s.set, updates)
	return err
}

// outline returns the record of a version without its hashes.
func (s *Source) outline(n int64, version uint32) catalog.Record {
	seed := s.key(n, version)
	return catalog.Record{
		URI: s.uri(n), Length: s.o.Sizes.pick(seed), Type: "application/octet-stream",
		Lastmod: epoch.Add(time.Duration(version-1) * time.Second),
		Token:   strconv.FormatUint(uint64(version), 10),
	}
}

// uri returns the address of resource n, a thousand to a directory.
func (s *Source) uri(n int64) string {
	digits := strconv.FormatInt(n+maxResources, 10)[1:] // leading zeros: the order of URIs is that of numbers
	return s.base + "r/" + digits[:6] + "/" + digits + ".bin"
}

// key returns the value that determines the bytes of a version.
func (s *Source) key(n int64, version uint32) uint64 {
	return mix64(mix64(s.o.Seed+golden*uint64(n+1)) + uint64(version))
}

// content reads the bytes a record describes.
func (s *Source) content(r *catalog.Record) io.ReadSeeker {
	digits := strings.TrimSuffix(r.URI[strings.LastIndexByte(r.URI, '/')+1:], ".bin")
	n, _ := strconv.ParseInt(digits, 10, 64)         // written by outline
	version, _ := strconv.ParseUint(r.Token, 10, 32) // likewise
	return newContent(s.key(n, uint32(version)), r.Length)
}

func (s *Source) bitstream(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
	return closable{s.content(r)}, nil
}

// past opens any earlier version: none is forgotten.
func (s *Source) past(_ context.Context, c *catalog.Change) (io.ReadCloser, error) {
	if c.Change == resourcesync.Deleted {
		return nil, fs.ErrNotExist
	}
	return closable{s.content(&c.Record)}, nil
}

type closable struct{ io.ReadSeeker }

func (closable) Close() error { return nil }
