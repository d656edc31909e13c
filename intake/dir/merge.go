package dir

import (
	"context"
	"path"
	"strings"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/pathname"
)

// mergeAll compares the whole directory with the whole set.
func (s *scan) mergeAll(ctx context.Context) error {
	if err := s.merge(ctx, newNode("", ""), catalog.Range{}); err != nil {
		return err
	}
	return s.flush(ctx)
}

// mergePaths compares only the files at and below the paths with the resources
// that the catalog has there.
func (s *scan) mergePaths(ctx context.Context, rels []string) error {
	for _, rel := range rels {
		uri := s.d.URI(rel)
		at := catalog.Range{From: uri, To: uri + "\x00"}
		below := catalog.Range{From: uri + "/", To: uri + "0"} // "0" follows "/"
		if err := s.merge(ctx, s.only(rel), at, below); err != nil {
			return err
		}
	}
	return s.flush(ctx)
}

// only returns the directory that contains rel as if it contained nothing else.
func (s *scan) only(rel string) *node {
	dir, name := path.Split(rel)
	n := newNode(dir, pathname.EscapePath(dir))
	n.taken.Store(true)
	st, err := s.t.lstat(rel)
	switch {
	case err != nil && vanished(err):
	case err != nil:
		s.Unreadable(rel, err)
		n.append([]byte(name), filestat.Unreadable, false)
		n.append([]byte(name), filestat.Unreadable, true)
		n.stats = []filestat.Stat{{Kind: filestat.Unreadable}, {Kind: filestat.Unreadable}}
	case st.Kind == filestat.Dir:
		if s.d.filter.PassesDir(rel) {
			n.append([]byte(name), filestat.Dir, true)
			n.stats = []filestat.Stat{st}
			n.dirs = []int32{0}
		}
	case s.d.filter.Passes(rel):
		n.append([]byte(name), st.Kind, false)
		n.stats = []filestat.Stat{s.walker().judge(dir, []byte(name), st, nil)}
		s.walker().onlyCar(n, name)
	}
	return n
}

func (s *scan) walker() *walker {
	return &walker{t: s.t, obs: s, f: s.d.filter, base: s.d.base}
}

// merge compares the files below start with the resources in the ranges, both in
// the order of URIs.
func (s *scan) merge(ctx context.Context, start *node, ranges ...catalog.Range) error {
	rows := intake.ReadRows(ctx, s.d.cat, s.d.set, ranges)
	defer rows.Stop()
	err := s.walker().walk(ctx, start, func(it *item) error { return s.meet(ctx, rows, it) })
	if err != nil {
		return err
	}
	return rows.Rest(s.gone.Add)
}

// meet compares an item of the walk with the catalog row of the same URI.
func (s *scan) meet(ctx context.Context, rows *intake.Rows, it *item) error {
	for rows.More() && rows.Row().URI < string(it.uri) {
		if err := s.gone.Add(rows.Row().URI); err != nil {
			return err
		}
		rows.Next()
	}
	if rows.Err != nil {
		return rows.Err
	}
	if it.kind == filestat.Dir { // unreadable: what is below is unknown
		for rows.More() && strings.HasPrefix(rows.Row().URI, string(it.uri)) {
			rows.Next()
		}
		return rows.Err
	}
	s.Files.Add(1)
	known := rows.More() && rows.Row().URI == string(it.uri)
	j := job{}
	if !known && it.kind == filestat.Unreadable {
		return nil
	}
	if known {
		old := rows.Row().Token
		rows.Next()
		if it.kind == filestat.Unreadable {
			return nil
		}
		if it.st.Private {
			s.Private(it.rel())
		}
		s.token = it.st.AppendToken(s.token[:0], s.d.prefix)
		file := len(s.token)
		s.token = it.car.appendToken(s.token)
		if string(s.token) == old {
			s.Unchanged.Add(1)
			return nil
		}
		j.same = fileToken(old) == string(s.token[:file])
	}
	j.uri, j.rel, j.link, j.known, j.st = string(it.uri), it.rel(), it.link, known, it.st
	if it.car != nil {
		j.car = *it.car
	}
	return s.enqueue(ctx, j)
}
