package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/pathname"
	"lockstep/internal/sleep"
	"lockstep/resourcesync"
)

// maxSidecar is the size of the largest sidecar that is read: it is held in memory.
const maxSidecar = 1 << 20

// A sidecar is a file that states the links of the file beside it, and its foreign markup.
type sidecar struct {
	ent  int           // index of the file in the directory
	name string        // name of the sidecar; empty: there is none
	st   filestat.Stat // File, Link or Unreadable
}

// Why a sidecar is skipped or rejected.
var (
	errNoResource   = errors.New("there is no resource to which its links belong")
	errSidecarSize  = fmt.Errorf("larger than %d bytes", maxSidecar)
	errSidecarPatch = errors.New("a patch belongs to one change, so a sidecar cannot contain one")
)

// parseSuffix validates the suffix of the names of sidecars.
func parseSuffix(s string) (string, error) {
	if strings.ContainsAny(s, "/\x00") {
		return "", fmt.Errorf("sidecar %q: want the end of a file name, such as .links.json", s)
	}
	return s, nil
}

// addCar records the name if it is that of a sidecar. A sidecar of a file that is
// not a resource has no effect.
func (w *walker) addCar(n *node, name []byte) bool {
	of, ok := w.f.SidecarOf(string(name))
	if !ok {
		return false
	}
	if rel := n.rel + of; !pathname.Reserved(rel, filestat.File) && w.f.File(rel) {
		n.cars = append(n.cars, sidecar{name: string(name)})
	}
	return true
}

// matchCars finds the files to which the sidecars in n belong, and the state of the
// sidecars.
func (w *walker) matchCars(n *node, h dirHandle) {
	if len(n.cars) == 0 {
		return
	}
	cars := n.cars[:0]
	var segment []byte
	for _, car := range n.cars {
		segment = pathname.AppendEscaped(segment[:0], strings.TrimSuffix(car.name, w.f.Sidecar))
		i, found := slices.BinarySearchFunc(n.ents, segment, func(e dirent, s []byte) int { return bytes.Compare(n.segment(&e), s) })
		if !found {
			w.obs.Skipped(n.rel+car.name, errNoResource)
			continue
		}
		st, err := h.lstat([]byte(car.name))
		if car.st = w.judge(n.rel, []byte(car.name), st, err); car.st.Kind == filestat.None {
			continue
		}
		car.ent = i
		cars = append(cars, car)
	}
	slices.SortStableFunc(cars, func(a, b sidecar) int { return a.ent - b.ent })
	n.cars = cars
}

// onlyCar looks for the sidecar of the one file in n.
func (w *walker) onlyCar(n *node, name string) {
	if w.f.Sidecar == "" {
		return
	}
	car := sidecar{name: name + w.f.Sidecar}
	st, err := w.t.lstat(n.rel + car.name)
	if err == nil && st.Kind != filestat.File && st.Kind != filestat.Link {
		return
	}
	if car.st = w.judge(n.rel, []byte(car.name), st, err); car.st.Kind != filestat.None {
		n.cars = []sidecar{car}
	}
}

// A Token ends with the state of the sidecar, if there is one; if it could not be
// read, with a mark alone.
const (
	sidecarMark    = ';'
	unreadableMark = '!'
)

func (c *sidecar) appendToken(dst []byte) []byte {
	switch {
	case c == nil || c.name == "":
		return dst
	case c.st.Kind == filestat.Unreadable:
		return append(dst, sidecarMark, unreadableMark)
	}
	return c.st.AppendToken(append(dst, sidecarMark), "")
}

// fileToken returns the part of a Token that describes the file itself.
func fileToken(token string) string {
	file, _, _ := strings.Cut(token, string(sidecarMark))
	return file
}

// readLinks updates the links and the foreign markup of an unchanged file without reading the file.
func (h *hasher) readLinks(ctx context.Context, j *job) (done bool, err error) {
	held, ok, err := h.held(ctx, j.uri)
	if err != nil || !ok || held.Token == "" {
		return false, err
	}
	j.record, j.outcome = held, readWhole
	j.record.Token = fileToken(held.Token)
	return true, h.addLinks(ctx, j)
}

// addLinks adds the links and the foreign markup in the sidecar of a file to its record. If
// the sidecar cannot be read, they stay as they were, and the next scan tries again.
func (h *hasher) addLinks(ctx context.Context, j *job) error {
	j.record.Links, j.record.Foreign = nil, resourcesync.Foreign{}
	if j.car.name == "" {
		return nil
	}
	rel := j.rel[:strings.LastIndexByte(j.rel, '/')+1] + j.car.name
	token := string(j.car.appendToken(nil))
	if j.car.st.Kind != filestat.Unreadable { // else it was already reported
		for i, pause := range readTries {
			if err := sleep.For(ctx, pause); err != nil {
				return err
			}
			said, mark, err := h.readSidecar(rel, j.car.st.Kind == filestat.Link, i == len(readTries)-1)
			switch {
			case err == nil:
				j.record.Links, j.record.Foreign = said.Links, said.Foreign
				j.record.Token += mark
				return nil
			case vanished(err), j.car.st.Kind == filestat.Link && escaped(err):
				return nil
			case errors.Is(err, intake.ErrChanging) && i < len(readTries)-1:
				continue
			case errors.Is(err, intake.ErrChanging):
				h.s.d.addAgain(j.rel)
			}
			h.s.Unreadable(rel, err)
			break
		}
		token += string(filestat.RacyMark)
	}
	j.record.Token += token
	if j.known {
		held, _, err := h.held(ctx, j.uri)
		j.record.Links, j.record.Foreign = held.Links, held.Foreign
		return err
	}
	return nil
}

// readSidecar reads the sidecar at rel. mark is its part of the Token; empty if the
// sidecar does not exist.
func (h *hasher) readSidecar(rel string, link, last bool) (said catalog.Record, mark string, err error) {
	f, err := h.s.t.openFile(rel, link)
	if err != nil {
		return said, "", err
	}
	defer func() { _ = f.Close() }() // only read from
	before, err := f.stat()
	if err != nil {
		return said, "", err
	}
	if before.Kind != filestat.File {
		return said, "", nil
	}
	if before.Size > maxSidecar {
		return said, "", errSidecarSize
	}
	now := time.Now()
	text := make([]byte, before.Size+1)
	n, err := fill(f, text)
	if err != nil {
		return said, "", err
	}
	after, err := f.stat()
	if err != nil {
		return said, "", err
	}
	if int64(n) != before.Size || !before.Unchanged(&after) || after.Fresh(now) && !last {
		return said, "", intake.ErrChanging
	}
	if said, err = parseSidecar(text[:n]); err != nil {
		return said, "", err
	}
	token := after.AppendToken([]byte{sidecarMark}, "")
	if after.Racy(now) {
		token = append(token, filestat.RacyMark)
	}
	return said, string(token), nil
}

// fill reads until b is full or the file ends.
func fill(f treeFile, b []byte) (n int, err error) {
	for n < len(b) {
		k, err := f.Read(b[n:])
		n += k
		if k == 0 || errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// held returns the catalog's record of a resource.
func (h *hasher) held(ctx context.Context, uri string) (catalog.Record, bool, error) {
	return intake.Held(ctx, h.s.d.cat, h.s.d.set, uri)
}

// parseSidecar parses the text of a sidecar: {"links":[…],"foreign":"…"}, with both as in
// an entry. Of the record that it returns only these are set. Its errors are of type
// [*intake.EntryError].
func parseSidecar(text []byte) (said catalog.Record, err error) {
	t := entry.Text{Bytes: text}
	t.Peek()
	start := t.At
	seen := make(entry.FieldSet, 0, 2)
	err = t.Object(func(name string, at int) error {
		return seen.Read(name, at, "links, foreign", func() (err error) {
			switch name {
			case "links":
				said.Links, err = t.Links()
			case "foreign":
				said.Foreign, err = t.Foreign()
			default:
				return entry.ErrUnknownField
			}
			return err
		})
	})
	if err == nil {
		err = t.End()
	}
	if err != nil {
		return catalog.Record{}, err
	}
	e := entry.Entry{Update: catalog.Update{Record: said}}
	for _, l := range said.Links {
		if l.Rel == resourcesync.RelPatch {
			return catalog.Record{}, &entry.Error{Offset: start, Err: errSidecarPatch}
		}
	}
	return said, e.Check(start)
}
