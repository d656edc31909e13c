package bridge_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/oaipmh/oaipmhtest"
)

// loseState removes all state of a mirror.
func (m *mirror) loseState() {
	m.t.Helper()
	if err := os.RemoveAll(filepath.Join(m.dir, ".lockstep")); err != nil {
		m.t.Fatal(err)
	}
}

// A mirror of a feed whose state is lost takes over its files without a flag, if
// their bytes equal what the server serves. Files that differ are left alone and
// named.
func TestFeedLostState(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	for i := range 9 {
		p.put(i, fmt.Sprint("text ", i), 1+i%2)
	}
	p.archive(3)
	m := newMirror(t, p.srv.URL+"/feed")
	m.mustSync()
	m.loseState()
	if r := m.mustSync(); r.By.Adopted != 9 || r.Created != 0 {
		t.Errorf("report: %+v", r)
	}
	m.holds(p.want())
	m.loseState()
	m.write("r/3", "TEXT 3")
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.By.Adopted != 8 || r.Failed != 1 || !strings.Contains(fmt.Sprint(r.Failures), "/r/3") {
		t.Errorf("Sync = %v, %+v", err, r)
	}
	if m.files()["r/3"] != "TEXT 3" {
		t.Error("the file that differs was not left alone")
	}
}

// The same for a repository, whose records are hashed as they are harvested: only
// the list is requested. Long harvests decide at their end.
func TestRepositoryLostState(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, oaipmhtest.Options{Records: 25, PageSize: 10})
	m := newMirror(t, l.url)
	m.mustSync()
	for range 2 { // also if only the Journal is lost
		if err := os.Remove(filepath.Join(m.dir, ".lockstep", "state.db")); err != nil {
			t.Fatal(err)
		}
		if r := m.mustSync(); r.By.Adopted != 25 || r.Created+r.By.Harvest+r.By.Request != 0 {
			t.Errorf("report: %+v", r)
		}
		m.holds(l.want())
		m.loseState()
		m.mustSync()
	}
	m.loseState()
	var some string
	for some = range l.want() {
		break
	}
	m.write(some, "another")
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.By.Adopted != 24 || r.Failed != 1 || m.files()[some] != "another" {
		t.Errorf("Sync = %v, %+v", err, r)
	}
}

// If a directory contains a file that belongs to no record, nothing is taken over.
func TestHarvestLostStateStranger(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, oaipmhtest.Options{Records: 5})
	m := newMirror(t, l.url)
	m.mustSync()
	m.loseState()
	m.write("notes", "the user's")
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.By.Adopted != 0 || r.Failed != 5 || !strings.Contains(fmt.Sprint(r.Failures), "--adopt") {
		t.Errorf("Sync = %v, %+v", err, r)
	}
}

// write puts a file into the mirror, as another program would.
func (m *mirror) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, filepath.FromSlash(name)), []byte(text), 0o666); err != nil {
		m.t.Fatal(err)
	}
}
