package dir

import (
	"context"

	"lockstep/intake/internal/filestat"
)

// visitor consumes a walk: depth first, in order.
type visitor struct {
	w     *walker
	yield func(*item) error
	buf   []byte // the URI of its position
	it    item
}

// visit yields the files below n.
func (v *visitor) visit(ctx context.Context, n *node) error {
	if n.taken.CompareAndSwap(false, true) {
		v.w.read(n)
	}
	<-n.done
	if err := ctx.Err(); err != nil {
		return err
	}
	defer v.w.release(n)
	v.buf = append(v.buf[:len(v.w.base)], n.uri...)
	if n.err != nil {
		return v.failed(n)
	}
	prefix := len(v.buf)
	kid, car := 0, 0
	run, from := n.stats, 0
	for i := range n.ents {
		if len(n.runs) > 0 && i%statRun == 0 {
			run, from = v.statRun(n, i/statRun), i
		}
		e := &n.ents[i]
		if e.kind == filestat.Dir {
			if err := v.visitKid(ctx, n, kid); err != nil {
				return err
			}
			kid++
			v.buf = append(v.buf[:len(v.w.base)], n.uri...)
			continue
		}
		v.buf = append(v.buf[:prefix], n.segment(e)...)
		v.it.car = nil
		if car < len(n.cars) && n.cars[car].ent == i {
			v.it.car = &n.cars[car]
			car++
		}
		if err := v.file(n, e, &run[i-from]); err != nil {
			return err
		}
	}
	return nil
}

// failed yields a directory that could not be read, unless it has vanished.
func (v *visitor) failed(n *node) error {
	if n.rel == "" {
		return n.err // without the root nothing is known
	}
	if vanished(n.err) {
		return nil
	}
	v.w.obs.Unreadable(n.dirRel(), n.err)
	v.it = item{uri: v.buf, node: n, kind: filestat.Dir}
	return v.yield(&v.it)
}

func (v *visitor) visitKid(ctx context.Context, n *node, k int) error {
	v.w.mu.Lock()
	kid := v.w.kid(n, k)
	n.nextKid = max(n.nextKid, k+1)
	v.w.mu.Unlock()
	err := v.visit(ctx, kid)
	v.w.mu.Lock()
	n.kids[k] = nil
	v.w.mu.Unlock()
	return err
}

func (v *visitor) file(n *node, e *dirent, st *filestat.Stat) error {
	v.it = item{uri: v.buf, node: n, name: n.rawName(e), car: v.it.car, kind: st.Kind, st: *st}
	switch st.Kind {
	case filestat.None:
		return nil
	case filestat.Link:
		v.it.kind, v.it.link, v.it.st.Kind = filestat.File, true, filestat.File
	case filestat.Unreadable:
		if v.buf[len(v.buf)-1] == '/' {
			v.it.kind = filestat.Dir
		}
	}
	return v.yield(&v.it)
}

// statRun returns the states of the files in the r-th run of names of a large
// directory, while the following runs are being examined.
func (v *visitor) statRun(n *node, r int) []filestat.Stat {
	for i := r; i < min(r+statRuns, len(n.runs)); i++ {
		if n.runs[i] != nil {
			continue
		}
		out := make(chan []filestat.Stat, 1)
		n.runs[i] = out
		from := i * statRun
		n.looks.Go(func() {
			out <- v.w.look(n, n.h, make([]filestat.Stat, 0, statRun), from, min(from+statRun, len(n.ents)))
		})
	}
	return <-n.runs[r]
}
