package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// memNotes are Notes in memory. They fail while broken is set.
type memNotes struct {
	all    map[string][]byte
	broken bool
	loads  int // calls of Load
}

var errBroken = errors.New("the database is down")

func (m *memNotes) Load(name string) ([]byte, error) {
	m.loads++
	if m.broken {
		return nil, errBroken
	}
	return slices.Clone(m.all[name]), nil
}

func (m *memNotes) SaveAll(notes map[string][]byte) error {
	if m.broken {
		return errBroken
	}
	for name, text := range notes {
		if text == nil {
			delete(m.all, name)
		} else {
			m.all[name] = slices.Clone(text)
		}
	}
	return nil
}

// TestKeyStores: a file that was written in pieces is the same in a directory and in notes, as long as it
// is open and when it is opened again; a removed one leaves nothing.
func TestKeyStores(t *testing.T) {
	t.Parallel()
	notes := &memNotes{all: map[string][]byte{}}
	for name, open := range map[string]func() keyStore{
		"directory": func() func() keyStore { dir := keyDir(t.TempDir()); return func() keyStore { return dir } }(),
		"notes":     func() keyStore { return &keyNotes{notes: notes, prefix: "api/main/"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := open()
			if names, err := s.list(); err != nil || len(names) > 0 {
				t.Fatalf("at first there is %v, %v", names, err)
			}
			begun := time.Now().UTC()
			f, err := s.create("keys-00000001.log", begun)
			if err != nil {
				t.Fatal(err)
			}
			var want []byte
			for i := range 60 {
				text := bytes.Repeat([]byte{byte(i)}, 1+rand.IntN(noteBlock/4))
				if i == 30 {
					text = bytes.Repeat(text, 40) // more than a block
				}
				if err := f.write(text, int64(len(want))); err != nil {
					t.Fatal(err)
				}
				want = append(want, text...)
			}
			checkKeyFile(t, f, want)
			s = open()
			names, err := s.list()
			if err != nil || !slices.Equal(names, []string{"keys-00000001.log"}) {
				t.Fatalf("when it is opened again there is %v, %v", names, err)
			}
			again, size, at, err := s.open(names[0])
			if err != nil || size != int64(len(want)) || at.Before(begun.Add(-time.Second)) {
				t.Fatalf("it has %d bytes, begun at %v, %v, want %d", size, at, err, len(want))
			}
			checkKeyFile(t, again, want)
			if err := errors.Join(s.remove(names[0]), s.remove(names[0])); err != nil {
				t.Errorf("remove: %v", err)
			}
			if names, err := open().list(); err != nil || len(names) > 0 {
				t.Errorf("after it was removed there is %v, %v", names, err)
			}
		})
	}
	if len(notes.all) != 1 {
		t.Errorf("%d notes are left, want the list", len(notes.all))
	}
}

// checkKeyFile reads a file as a whole, and pieces of it.
func checkKeyFile(t *testing.T, f keyFile, want []byte) {
	t.Helper()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("it has %d bytes, %v, want %d", len(got), err, len(want))
	}
	for range 50 {
		from := rand.IntN(len(want))
		p := make([]byte, 1+rand.IntN(len(want)-from))
		if n, err := f.ReadAt(p, int64(from)); err != nil && err != io.EOF || !bytes.Equal(p[:n], want[from:from+len(p)]) {
			t.Fatalf("at %d there are other bytes, %v", from, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestKeysAreLoadedOnce: each note is loaded once when a process begins.
func TestKeysAreLoadedOnce(t *testing.T) {
	t.Parallel()
	notes := &memNotes{all: map[string][]byte{}}
	open := func() *keyLog {
		t.Helper()
		l := newKeyLog(&keyNotes{notes: notes, prefix: "api/main/"}, Options{Now: time.Now, MaxKeys: 1000})
		if err := l.open(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	for segment := range 3 {
		l := open()
		for i := range 100 {
			r := keyRecord{kind: keyAsked, at: time.Now(), after: 7, id: keyID{byte(i), byte(segment)}, uri: fmt.Sprintf("http://x/%0999d", i)}
			if err := l.ask([]keyRecord{r}); err != nil {
				t.Fatal(err)
			}
		}
	}
	notes.loads = 0
	l := open()
	if high := l.highest(); high != 7 || l.count() != 300 || notes.loads > len(notes.all) {
		t.Errorf("%d keys, up to change %d, of %d notes that were loaded %d times", l.count(), high, len(notes.all), notes.loads)
	}
	for i, s := range l.segments {
		if held := s.file.(*noteFile).read; held != nil {
			t.Errorf("segment %d holds %d blocks in memory", i, len(held))
		}
	}
}

// TestKeysWithoutDatabase: while the database is down nothing is recorded, and afterwards the log has
// what was recorded before and since.
func TestKeysWithoutDatabase(t *testing.T) {
	t.Parallel()
	notes := &memNotes{all: map[string][]byte{}}
	open := func() *keyLog {
		t.Helper()
		l := newKeyLog(&keyNotes{notes: notes, prefix: "api/main/"}, Options{Now: time.Now, MaxKeys: 100})
		if err := l.open(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	record := func(n int) keyRecord {
		return keyRecord{kind: keyAsked, at: time.Now(), id: keyID{byte(n)}, uri: fmt.Sprint("http://x/", n)}
	}
	l := open()
	if err := l.ask([]keyRecord{record(1)}); err != nil {
		t.Fatal(err)
	}
	notes.broken = true
	if err := l.ask([]keyRecord{record(2)}); !errors.Is(err, errBroken) {
		t.Fatalf("while the database is down: %v", err)
	}
	two := record(2)
	if err := l.settle([]keyRecord{two.answered(200, nil)}); !errors.Is(err, errBroken) {
		t.Fatalf("while the database is down: %v", err)
	}
	if r, _, err := l.find(two.id); err != nil || r.kind == keyAnswered {
		t.Fatalf("request 2 has an answer that could not be recorded: %v", err)
	}
	notes.broken = false
	if err := l.settle([]keyRecord{two.dropped()}); err != nil {
		t.Fatal(err)
	}
	if err := l.ask([]keyRecord{record(3)}); err != nil {
		t.Fatal(err)
	}
	l = open()
	for n, want := range map[int]bool{1: true, 2: false, 3: true} {
		if _, ok, err := l.find(keyID{byte(n)}); err != nil || ok != want {
			t.Errorf("request %d is recorded: %t, %v, want %t", n, ok, err, want)
		}
	}
}
