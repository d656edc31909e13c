package dir

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"time"

	"lockstep/intake/internal/filestat"
	"lockstep/internal/hashlanes"
	"lockstep/internal/mediatype"
	"lockstep/resourcesync"
)

// maxSmall is the size of the largest file that is read whole, so that its hashes are
// computed together with those of others: at least four of them fit in readBuffer.
const maxSmall = 64 << 10

// smallFiles are files of a block that have been read and not yet recorded.
type smallFiles struct {
	md5, sha256 bool                 // they are among the algorithms
	others      *resourcesync.Hasher // of all other algorithms; nil if there are none
	jobs        []*job
	contents    [][]byte
	states      []filestat.Stat
	md5s        [blockFiles][md5.Size]byte
	sha256s     [blockFiles][sha256.Size]byte
}

func newSmallFiles(algs []resourcesync.Algorithm) smallFiles {
	var f smallFiles
	var others []resourcesync.Algorithm
	for _, a := range algs {
		switch a {
		case resourcesync.MD5:
			f.md5 = true
		case resourcesync.SHA256:
			f.sha256 = true
		default:
			others = append(others, a)
		}
	}
	if len(others) > 0 {
		f.others = resourcesync.NewHasher(others...)
	}
	return f
}

// readSmall reads the small files among jobs. Those that cannot be read, or have
// changed since the walk found them, are left to read.
func (h *hasher) readSmall(ctx context.Context, jobs []job) error {
	f := &h.small
	for len(jobs) > 0 {
		f.jobs, f.contents, f.states = f.jobs[:0], f.contents[:0], f.states[:0]
		now, free := time.Now(), h.buf
		for len(jobs) > 0 && len(f.jobs) < blockFiles {
			j := &jobs[0]
			want := j.st.Size + 1 // a shorter read has reached the end
			if want <= maxSmall && want > int64(len(free)) {
				break
			}
			jobs = jobs[1:]
			if want > maxSmall || j.same {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if h.readOneSmall(j, free[:want], now) {
				free = free[want:]
			}
		}
		if err := h.recordSmall(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// readOneSmall reads the file of j into buf and reports whether it is in the state
// in which the walk found it. Nothing can have been written to it since without a
// change of its times.
func (h *hasher) readOneSmall(j *job, buf []byte, now time.Time) bool {
	f, err := h.s.t.openFile(j.rel, j.link)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read from
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) || int64(n) != j.st.Size {
		return false
	}
	st, err := f.stat()
	if err != nil || st.Kind != filestat.File || st.Dev != j.st.Dev || !j.st.Unchanged(&st) || st.Fresh(now) {
		return false
	}
	s := &h.small
	s.jobs, s.contents, s.states = append(s.jobs, j), append(s.contents, buf[:n]), append(s.states, st)
	h.s.Bytes.Add(int64(n))
	return true
}

// recordSmall computes the hashes of the files that were read, from now on, and makes
// their records.
func (h *hasher) recordSmall(ctx context.Context, now time.Time) error {
	f := &h.small
	if f.md5 {
		hashlanes.MD5(f.md5s[:len(f.jobs)], f.contents)
	}
	if f.sha256 {
		hashlanes.SHA256(f.sha256s[:len(f.jobs)], f.contents)
	}
	for i, j := range f.jobs {
		content := f.contents[i]
		h.record(j, &f.states[i], now, content[:min(len(content), mediatype.HeadSize)], f.hashes(i))
		if err := h.addLinks(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// hashes returns the hashes of file i, in the order of the algorithms' constants.
func (f *smallFiles) hashes(i int) resourcesync.Hashes {
	digests := make([]byte, 0, md5.Size+sha256.Size)
	hs := make(resourcesync.Hashes, 0, 2)
	if f.md5 {
		digests = append(digests, f.md5s[i][:]...)
		hs = append(hs, resourcesync.Hash{Algorithm: resourcesync.MD5})
	}
	if f.sha256 {
		digests = append(digests, f.sha256s[i][:]...)
		hs = append(hs, resourcesync.Hash{Algorithm: resourcesync.SHA256})
	}
	text := string(digests) // one for both
	for k := range hs {
		size := hs[k].Algorithm.Size()
		hs[k].Digest, text = text[:size], text[size:]
	}
	if f.others != nil {
		f.others.Reset()
		_, _ = f.others.Write(f.contents[i]) // a Hasher never fails
		hs = append(hs, f.others.Sum()...)
		slices.SortStableFunc(hs, func(a, b resourcesync.Hash) int { return int(a.Algorithm) - int(b.Algorithm) })
	}
	return hs
}
