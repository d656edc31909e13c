package bulk

import (
	"archive/zip"
	"bytes"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// TestPackageMembers: unacceptable members are handed back, the others are received.
func TestPackageMembers(t *testing.T) {
	t.Parallel()
	files := someFiles(20)
	bad := map[string]string{"link": "../../../etc/passwd", "twice": "1", "wrong": "content", "bomb": ""}
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	add := func(h zip.FileHeader, data string) {
		h.Method = zip.Deflate
		f, err := w.CreateHeader(&h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range sorted(maps.Keys(files)) {
		add(zip.FileHeader{Name: name}, files[name])
	}
	link := zip.FileHeader{Name: "link"}
	link.SetMode(os.ModeSymlink | 0o777)
	add(link, bad["link"])
	add(zip.FileHeader{Name: "twice"}, "1")
	add(zip.FileHeader{Name: "twice"}, "2")
	add(zip.FileHeader{Name: "wrong"}, "other!!")
	add(zip.FileHeader{Name: "bomb"}, strings.Repeat("\x00", 17<<20))
	add(zip.FileHeader{Name: "../../../escaped"}, "x")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	g := newPackageRig(t, buf.Bytes())
	want := maps.Clone(files)
	maps.Copy(want, bad)
	want["absent"] = "nowhere"
	want["../../../escaped"] = "x"
	job := g.job(want)
	for _, a := range job.Wanted {
		if a.Member.Path == "/bomb" {
			a.Length = -1
		}
		if strings.HasSuffix(a.URI, "escaped") {
			a.URI = g.srv.URL + "/r/fine"
		}
	}
	g.get(job)
	g.expect(files, "/../../../escaped", "/absent", "/bomb", "/link", "/twice", "/wrong")
	if len(g.warnings) != 1 || !strings.Contains(g.warnings[0], "6 of 27") {
		t.Errorf("warnings: %q", g.warnings)
	}
}

// TestPackageBomb: members that would unpack to far more than is stated are not unpacked.
func TestPackageBomb(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 20<<20)
	body := packOf(t, map[string]string{"bomb": zeros}, zip.Deflate)
	for length, want := range map[int64]string{-1: "which nothing states", 1000: "1000 are stated", 20 << 20: ""} {
		g := newPackageRig(t, body)
		job := g.job(map[string]string{"bomb": zeros})
		job.Wanted[0].Length = length
		g.get(job)
		if warnings := strings.Join(g.warnings, ""); !strings.Contains(warnings, want) || (warnings == "") != (want == "") {
			t.Errorf("%d bytes stated: %q", length, warnings)
		}
	}
}

// TestPackageShared: one member may be the content of several resources.
func TestPackageShared(t *testing.T) {
	t.Parallel()
	files := someFiles(2, 500_000)
	g := newPackageRig(t, packOf(t, files, zip.Store))
	job := g.job(files)
	for _, a := range job.Wanted {
		if strings.Contains(a.URI, "f0000") || strings.Contains(a.URI, "large") {
			other := *a
			other.URI += "-again"
			job.Wanted = append(job.Wanted, &other)
		}
	}
	g.get(job)
	files["d0/f0000-again"], files["large/0-again"] = files["d0/f0000"], files["large/0"]
	g.expect(files)
}

// TestPackageVouched: content without a hash of its own is accepted if the hash of
// the package verifies it, or if there is no better source (RS-ZIP-09).
func TestPackageVouched(t *testing.T) {
	t.Parallel()
	files := someFiles(30, 5_000_000)
	body := packOf(t, files, zip.Store)
	none := resourcesync.Hashes(nil)
	tests := map[string]struct {
		hashes  resourcesync.Hashes
		trusted bool
		taken   bool
	}{
		"by the package":      {sumOf(body), false, true},
		"by another package":  {sumOf([]byte("x")), false, false},
		"by none":             {none, false, false},
		"by the members":      {none, true, true},
		"by an unknown hash":  {resourcesync.Hashes{{Algorithm: 0, Digest: "x"}}, false, false},
		"wrong, but the only": {sumOf([]byte("x")), true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newPackageRig(t, body)
			job := g.bare(files, tt.hashes)
			job.Trusted = tt.trusted
			g.get(job)
			if tt.taken {
				g.expect(files)
				return
			}
			if len(g.outcomes) > 0 || len(g.singles) != len(files) {
				t.Errorf("taken: %d, handed back: %d", len(g.outcomes), len(g.singles))
			}
		})
	}
}

// TestPackageExtra: members that no manifest names are ignored, and reported.
func TestPackageExtra(t *testing.T) {
	t.Parallel()
	files := someFiles(9)
	for members, warns := range map[int]bool{0: false, 7: true, 9: false, 10: false} {
		g := newPackageRig(t, packOf(t, files, zip.Store))
		job := g.job(files)
		job.Members = members
		g.get(job)
		if (len(g.warnings) > 0) != warns {
			t.Errorf("%d named: %q", members, g.warnings)
		}
		g.warnings = nil
		g.expect(files)
	}
}

// TestPackageHopeless: a package whose members are all wrong is not read to its end.
func TestPackageHopeless(t *testing.T) {
	t.Parallel()
	files := someFiles(3000)
	body := packOf(t, files, zip.Store)
	wrong := maps.Clone(files)
	for name := range wrong {
		wrong[name] = strings.ToUpper(files[name]) + "!"
	}
	g := newPackageRig(t, body)
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		http.ServeContent(slowWriter{w}, r, "", time.Time{}, bytes.NewReader(body))
		return true
	}
	g.get(g.job(wrong))
	if len(g.singles) != len(files) || len(g.warnings) != 1 {
		t.Errorf("handed back %d, warnings %q", len(g.singles), g.warnings)
	}
	if g.sent.Load() > int64(len(body))*3/4 {
		t.Errorf("%d bytes sent of %d", g.sent.Load(), len(body))
	}
}
