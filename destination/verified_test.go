package destination_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"lockstep/destination"
)

// TestVerified: what is accepted, given what the Source states: the strongest hash
// decides, or all of them (RS-HASH-06).
func TestVerified(t *testing.T) {
	t.Parallel()
	const right = "the content as it is"
	md := func(parts ...string) string { return "<rs:md " + strings.Join(parts, " ") + "/>" }
	const wrongMD5 = "md5:00000000000000000000000000000000"
	length := fmt.Sprintf(`length="%d"`, len(right))
	rightMD5 := fmt.Sprintf("md5:%x", md5.Sum([]byte(right)))
	rightSHA256 := fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(right)))
	wrongSHA256 := "sha-256:" + strings.Repeat("0", 64)
	for _, tt := range []struct {
		name, md string
		ok, warn bool
	}{
		{"nothing", "", true, false},
		{"length", md(length), true, false},
		{"wrong length", md(`length="3"`), false, false},
		{"a length that is none", md(`length="-3"`), true, true},
		{"unknown hash", md(`hash="blake3:00 crc32:1"`), true, false},
		{"unknown hash, wrong length", md(`hash="blake3:00"`, `length="3"`), false, false},
		{"wrong hash", md(`hash="`+wrongMD5+`"`, length), false, false},
		{"weaker of two wrong", md(`hash="` + rightSHA256 + " " + wrongMD5 + `"`), true, false},
		{"weaker of two wrong, stated first", md(`hash="` + wrongMD5 + " " + rightSHA256 + `"`), true, false},
		{"stronger of two wrong", md(`hash="` + rightMD5 + " " + wrongSHA256 + `"`), false, false},
		{"stronger of two unknown, weaker wrong", md(`hash="blake3:00 ` + wrongMD5 + `"`), false, false},
		{"a hash that is none", md(`hash="md5:zz"`), true, true},
		{"hash right, length wrong", strings.Replace(md(strings.TrimSpace(described(right))), length, `length="3"`, 1), true, true},
		{"hash and length right", md(strings.TrimSpace(described(right))), true, false},
	} {
		s := newSite(t, style{})
		s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:ln rel="up" href="`+s.url("/rs/capabilitylist.xml")+`"/><rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`,
			"<url><loc>"+s.url("/x")+"</loc>"+tt.md+"</url>"))
		s.mu.Lock()
		s.files["/x"] = siteFile{data: []byte(right)}
		s.mu.Unlock()
		for _, all := range []bool{false, true} {
			m := newMirror(t, s)
			m.opts.VerifyAll = all
			ok := tt.ok && !(all && strings.HasPrefix(tt.name, "weaker of two wrong"))
			r, err := m.sync()
			if (err == nil) != ok || (len(r.Warnings) > 0) != tt.warn || (m.files()["x"] == right) != ok {
				t.Errorf("%s (all: %v): %v, want accepted: %v, warnings %q", tt.name, all, err, ok, r.Warnings)
			}
		}
	}
}

// TestAuditVerifiesAllHashes: a wrong weaker hash, which sync does not compute, is found
// by an audit that verifies all hashes; sync records only what it has verified.
func TestAuditVerifiesAllHashes(t *testing.T) {
	t.Parallel()
	const text = "right by the stronger hash alone"
	s := newSite(t, style{})
	sum := fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(text)))
	s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:ln rel="up" href="`+s.url("/rs/capabilitylist.xml")+`"/><rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`,
		"<url><loc>"+s.url("/x")+`</loc><rs:md hash="md5:00000000000000000000000000000000 `+sum+`"/></url>`))
	s.mu.Lock()
	s.files["/x"] = siteFile{data: []byte(text)}
	s.mu.Unlock()
	m := newMirror(t, s)
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	for h, err := range m.journal.Held(context.Background(), "", "") {
		if err != nil || h.Hashes.String() != sum {
			t.Errorf("recorded: %s, %v, want %s", h.Hashes, err, sum)
		}
	}
	for _, all := range []bool{false, true} {
		m.opts.VerifyAll = all
		var found []destination.Finding
		m.on = func(e destination.Event) {
			if e.Kind == destination.EventFinding {
				found = append(found, e.Finding)
			}
		}
		r, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{Content: true})
		if err != nil || r.InSync == all || len(found) > 0 != all {
			t.Errorf("all: %v: %v, in sync: %v, %+v", all, err, r.InSync, found)
		}
		if len(found) > 0 && (found[0].Kind != "stale" || !strings.Contains(found[0].Cause, "md5:0000")) {
			t.Errorf("%+v", found)
		}
	}
}
