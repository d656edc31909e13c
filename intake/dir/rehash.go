package dir

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/filestat"
	"lockstep/resourcesync"
)

// DefaultRehash is the share of the files that is read again per day: each file is
// read about three times a year.
const DefaultRehash = 0.01

// DefaultRehashRate is the maximum number of bytes read again per second: a quarter
// of what one slow disk delivers, so that other readers are hardly delayed.
const DefaultRehashRate = 32 << 20

// maxArrears limits how much of the reading that was missed while no process ran is
// made up for.
const maxArrears = 24 * time.Hour

// A Damage is a file whose bytes have changed although size and times have not, or
// whose record has changed: because of the disk, the catalog, or a program that sets
// times back.
type Damage struct {
	URI, Path string
	Err       error // why the file cannot be read; nil: it is now listed with its present content
}

// RehashOptions configures a [Rehasher].
type RehashOptions struct {
	Share float64 // of the files, per day; 0: none
	Rate  int64   // maximum bytes per second; default DefaultRehashRate; negative: no limit
	State string  // file that stores the position; empty: it is not stored

	Now      func() time.Time // default: time.Now
	OnDamage func(Damage)     // may be nil
}

// A Rehasher reads the files of a Dir again, a share of them per day, spread evenly,
// in the order of their URIs. A scan reads only files whose size or times differ and
// so does not detect damage.
//
// The bytes on disk are the bytes that are served. So a damaged file is listed with
// its present content, as a change, and is reported.
type Rehasher struct {
	d *Dir
	o RehashOptions

	mu    sync.Mutex // guards the following fields; held by Step
	place rehashPlace
}

// A rehashPlace is the stored position of a Rehasher.
type rehashPlace struct {
	After string    `json:"after"` // URI of the file read last
	At    time.Time `json:"at"`    // time up to which all files that were due have been read
	Due   float64   `json:"due"`   // files, less than one
}

// NewRehasher returns a Rehasher of the files of d.
func NewRehasher(d *Dir, o RehashOptions) *Rehasher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rate == 0 {
		o.Rate = DefaultRehashRate
	}
	r := &Rehasher{d: d, o: o}
	if !intake.Recall(o.State, &r.place) {
		r.place = rehashPlace{}
	}
	return r
}

// Step reads the files that are due and returns how many it has read. It must be
// called regularly.
func (r *Rehasher) Step(ctx context.Context) (files int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, p := r.o.Now(), &r.place
	if r.o.Share <= 0 {
		return 0, nil
	}
	if p.At.IsZero() || now.Before(p.At) {
		p.At = now
		return 0, r.keep()
	}
	st, err := r.d.cat.Status(ctx, r.d.set)
	if err != nil {
		return 0, err
	}
	passed := min(now.Sub(p.At), maxArrears)
	due := p.Due + r.o.Share*float64(st.Resources)*passed.Hours()/24
	if due < 1 {
		return 0, nil // p.At stays: nothing is lost, and nothing needs to be written
	}
	wanted := int64(min(due, float64(st.Resources)))
	n, err := r.read(ctx, wanted)
	if err == nil {
		p.At, p.Due = now, due-float64(int64(due))
	}
	return n, errors.Join(err, r.keep())
}

func (r *Rehasher) keep() error {
	if err := intake.Remember(r.o.State, &r.place); err != nil {
		return fmt.Errorf("save which files were read again: %w", err)
	}
	return nil
}

// read reads the next files, and continues with the first after the last.
func (r *Rehasher) read(ctx context.Context, wanted int64) (files int, err error) {
	t, _, err := r.d.reopen()
	if err != nil {
		return 0, fmt.Errorf("read files of %s again: %w", r.d.root, err)
	}
	defer t.release()
	h := newHasher(newScan(r.d, t))
	h.pace = newPacer(r.o.Rate)
	for first := true; wanted > 0; first = false {
		page, err := r.page(ctx, wanted)
		if err != nil {
			return files, err
		}
		if len(page) == 0 {
			if r.place.After == "" || !first {
				return files, nil // there are no files, or all have been read
			}
			r.place.After = ""
			continue
		}
		for i := range page {
			done, err := r.check(ctx, h, &page[i])
			if err != nil {
				return files, err
			}
			if done {
				files++
			}
			r.place.After = page[i].URI
			wanted--
		}
	}
	return files, nil
}

// rehashPage is how many records are in memory at a time.
const rehashPage = 256

// page returns at most wanted records after the position.
func (r *Rehasher) page(ctx context.Context, wanted int64) (page []catalog.Record, err error) {
	var from string
	if r.place.After != "" {
		from = r.place.After + "\x00"
	}
	for rec, err := range r.d.cat.Resources(ctx, r.d.set, catalog.Range{From: from}) {
		if err != nil {
			return nil, err
		}
		page = append(page, rec)
		if int64(len(page)) == min(wanted, rehashPage) {
			break
		}
	}
	return page, nil
}

// check reads one file and compares it with its record, and reports whether a
// comparison was possible. Visible changes are left to the next scan.
func (r *Rehasher) check(ctx context.Context, h *hasher, rec *catalog.Record) (done bool, err error) {
	rel, ok := r.d.RelPath(rec.URI)
	if !ok {
		return false, nil
	}
	st, err := h.s.t.lstat(rel)
	if err != nil || st.Kind != filestat.File && st.Kind != filestat.Link {
		return false, nil // gone, or about to be deleted by a scan
	}
	j := job{uri: rec.URI, rel: rel, link: st.Kind == filestat.Link}
	whole, err := h.readOnce(ctx, &j, true)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && !vanished(err) && !(j.link && escaped(err)):
		r.report(Damage{URI: rec.URI, Path: rel, Err: err})
		return true, nil
	case err != nil, !whole, j.outcome != readWhole:
		return false, nil
	}
	if j.record.Token != fileToken(rec.Token) {
		return false, nil
	}
	if sameBytes(rec, &j.record) {
		return true, nil
	}
	return true, r.correct(ctx, rec, &j.record)
}

// sameBytes reports whether a record describes the bytes that were read.
func sameBytes(rec, now *catalog.Record) bool {
	if rec.Length != now.Length {
		return false
	}
	for _, h := range now.Hashes {
		if was := rec.Hashes.Get(h.Algorithm); was != "" && was != now.Hashes.Get(h.Algorithm) {
			return false
		}
	}
	return true
}

// correct lists a damaged file with its present content, unless a scan came first.
func (r *Rehasher) correct(ctx context.Context, rec, now *catalog.Record) error {
	r.d.scanning.Lock()
	defer r.d.scanning.Unlock()
	held, ok, err := catalog.Find(ctx, r.d.cat, r.d.set, rec.URI)
	if err != nil || !ok || held.Token != rec.Token {
		return err
	}
	next := *rec
	next.Hashes, next.Length, next.Type = now.Hashes, now.Length, now.Type
	next.Links = nil
	for _, l := range rec.Links {
		if l.Rel != resourcesync.RelPatch { // a patch applies to the previous bytes
			next.Links = append(next.Links, l)
		}
	}
	if _, err := r.d.cat.Apply(ctx, r.d.set, []catalog.Update{{Record: next}}); err != nil {
		return fmt.Errorf("list %s as it is: %w", rec.URI, err)
	}
	rel, _ := r.d.RelPath(rec.URI) // every record of the Dir has one
	r.report(Damage{URI: rec.URI, Path: rel})
	return nil
}

func (r *Rehasher) report(d Damage) {
	if r.o.OnDamage != nil {
		r.o.OnDamage(d)
	}
}
