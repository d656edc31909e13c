package destination_test

import (
	"os"
	"strings"
	"testing"

	"lockstep/destination"
)

// refusing is a mirror of s that holds /b from a host that it may not ask any more.
func refusing(t *testing.T, s *site) *mirror {
	t.Helper()
	s.put("/b", "two")
	s.rewrite = func(_, text string) string {
		return strings.ReplaceAll(text, s.url("/b"), strings.Replace(s.url("/b"), "127.0.0.1", "localhost", 1))
	}
	m := newMirror(t, s)
	m.opts.AllowHosts = []string{"localhost"}
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.opts.AllowHosts = nil
	return m
}

// TestAuditRefused: a resource that is held, and that may not be fetched any more, is
// compared with what the Source states of it.
func TestAuditRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	m := refusing(t, s)
	if r, err := m.auditWith(destination.AuditOptions{Content: true}); err != nil || !r.InSync || r.Verified != 2 {
		t.Errorf("unchanged: %v, %+v", err, r)
	}
	s.put("/b", "another version")
	r, err := m.auditWith(destination.AuditOptions{Content: true})
	if err != nil || r.InSync || r.Stale != 1 || !strings.Contains(r.Findings[0].Cause, "refused: ") {
		t.Errorf("changed: %v, %+v", err, r)
	}
}

// TestAuditRefusedFile: the file of a resource that may not be fetched any more is looked at,
// also if the Source states nothing of it that could be compared.
func TestAuditRefusedFile(t *testing.T) {
	t.Parallel()
	m := refusing(t, newSite(t, style{noHash: true, noLength: true, noLastmod: true}))
	if r, err := m.auditWith(destination.AuditOptions{Content: true}); err != nil || !r.InSync || r.Unverifiable != 1 {
		t.Errorf("unchanged: %v, %+v", err, r)
	}
	for name := range m.files() {
		if err := os.Remove(m.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := m.auditWith(destination.AuditOptions{Content: true}); err != nil || r.InSync || r.Missing != 1 {
		t.Errorf("the file is gone: %v, %+v", err, r)
	}
}
