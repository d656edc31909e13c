package validate_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

const head = `<?xml version="1.0" encoding="UTF-8"?>
<%[1]s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="https://lib.example.net/rs/maps/capabilitylist.xml"/>
`

// generated returns a body that is written while it is read.
func generated(write func(w io.Writer)) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(w, 64<<10) // a pipe hands over each write on its own
		write(buffered)
		_ = buffered.Flush() // the reader may be gone
		_ = w.Close()        // never fails
	}()
	return r
}

// opened counts requests.
func opened(n *atomic.Int64, open func(name string) (io.ReadCloser, error)) opener.Func {
	return opener.Named(base, func(_ context.Context, name string) (io.ReadCloser, error) {
		n.Add(1)
		return open(name)
	})
}

// TestLargeSource: the data for the comparison does not stay in memory. Not in
// parallel: it measures the memory of the process.
func TestLargeSource(t *testing.T) {
	parts, entries := 8, 50_000
	if underRace {
		entries = 10_000
	}
	uri := func(part, i int) string { return fmt.Sprintf("https://lib.example.net/maps/%d/%d.tif", part, i) }
	open := func(name string) (io.ReadCloser, error) {
		part := 0
		_, err := fmt.Sscanf(name, "list-%d.xml", &part)
		return generated(func(w io.Writer) {
			if err != nil {
				fmt.Fprintf(w, head, "sitemapindex")
				fmt.Fprint(w, `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`)
				for i := range parts {
					fmt.Fprintf(w, "<sitemap><loc>%slist-%d.xml</loc></sitemap>\n", base, i)
				}
				fmt.Fprint(w, "</sitemapindex>")
				return
			}
			fmt.Fprintf(w, head, "urlset")
			fmt.Fprint(w, `<rs:ln rel="index" href="https://lib.example.net/index.xml"/><rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`)
			for i := range entries {
				of := part
				if part == 6 && i%(entries/5) == 77 {
					of = 2 // five URIs are in both
				}
				fmt.Fprintf(w, "<url><loc>%s</loc></url>\n", uri(of, i))
			}
			fmt.Fprint(w, "</urlset>")
		}), nil
	}
	var n atomic.Int64
	var peak atomic.Uint64
	o := validate.Options{Advice: true, TempDir: t.TempDir(), Sample: 0, OnDocument: func(string) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak.Store(max(peak.Load(), m.HeapInuse))
	}}
	start := time.Now()
	r, err := validate.Source(t.Context(), opened(&n, open), base+"index.xml", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entries in %v, heap %d MB", r.Entries, time.Since(start), peak.Load()>>20)
	if peak.Load() > 96<<20 {
		t.Errorf("heap of %d MB", peak.Load()>>20)
	}
	twice := 0
	for _, f := range r.Findings {
		if f.Rule == "RS-RL-04" {
			twice++
			if !strings.Contains(f.Message, "maps/2/") || !strings.Contains(f.Message, "list-") || f.Document != base+"list-6.xml" {
				t.Errorf("%s", f)
			}
		}
	}
	if twice != 5 || r.Errors != 6 || r.Entries < int64(parts*entries) { // the sixth: there is no Capability List
		t.Errorf("%d URIs twice, %d errors, %d entries; want 5, 6", twice, r.Errors, r.Entries)
	}
}

// TestHostile: nothing that a Source sends makes a run last forever, use
// unlimited memory, or end without a report.
func TestHostile(t *testing.T) {
	t.Parallel()
	index := func(locs ...string) string {
		var b strings.Builder
		fmt.Fprintf(&b, head, "sitemapindex")
		b.WriteString(`<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`)
		for _, loc := range locs {
			fmt.Fprintf(&b, "<sitemap><loc>%s</loc></sitemap>\n", loc)
		}
		return b.String() + "</sitemapindex>"
	}
	tests := []struct {
		name, start string
		open        func(name string) (io.ReadCloser, error)
		rule        string
	}{
		{"an index that names itself", "a.xml", func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(index(base + "a.xml"))), nil
		}, "RS-IDX-04"},
		{"indexes that lead to each other", "a.xml", func(name string) (io.ReadCloser, error) {
			other := map[string]string{"a.xml": "b.xml", "b.xml": "a.xml"}[name]
			if other == "" {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(strings.NewReader(index(base + other))), nil
		}, "RS-IDX-04"},
		{"up without end", "1", func(name string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(strings.Replace(index(), "rs/maps/capabilitylist.xml", name+"1", 1))), nil
		}, "RS-RLI-01"},
		{"a document without end", "a.xml", func(string) (io.ReadCloser, error) {
			return generated(func(w io.Writer) {
				fmt.Fprintf(w, head, "urlset")
				for {
					if _, err := fmt.Fprint(w, "<url><loc>https://lib.example.net/a</loc></url>"); err != nil {
						return
					}
				}
			}), nil
		}, "RS-IDX-01"},
		{"a body that breaks off", "a.xml", func(string) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(index("https://lib.example.net/x")[:200]), failing{})), nil
		}, ""},
		{"nothing", "a.xml", func(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }, ""},
		{"a page for people", "a.xml", func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("<!DOCTYPE html><html><body>Please log in.")), nil
		}, "RS-GEN-04"},
		{"binary", "a.xml", func(string) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(make([]byte, 1<<20))), nil
		}, "RS-XML-01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var n atomic.Int64
			r, err := validate.Source(ctx, opened(&n, tt.open), base+tt.start, validate.Options{Advice: true, TempDir: t.TempDir(), DocumentBytes: 4 << 20, Sample: 10})
			inTable(t, r)
			if n.Load() > 20 {
				t.Errorf("%d requests", n.Load())
			}
			if tt.rule == "" {
				if err == nil || ctx.Err() != nil {
					t.Errorf("error %v, want a cause", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Findings {
				if f.Rule == tt.rule {
					return
				}
			}
			t.Errorf("findings %v, want %s", r.Findings, tt.rule)
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// TestTooManyDocuments: an endless Source is cut off.
func TestTooManyDocuments(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	open := opened(&n, func(name string) (io.ReadCloser, error) {
		var b strings.Builder
		b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`)
		if !strings.HasPrefix(name, "c") {
			b.WriteString(`<rs:md capability="description"/>`)
			for i := range 10_000 {
				fmt.Fprintf(&b, `<url><loc>%sc%d</loc><rs:md capability="capabilitylist"/></url>`, base, i)
			}
		} else {
			b.WriteString(`<rs:md capability="capabilitylist"/>`)
		}
		return io.NopCloser(strings.NewReader(b.String() + "</urlset>")), nil
	})
	r, err := validate.Source(t.Context(), open, base+".well-known/resourcesync", validate.Options{Advice: true, Documents: 100, TempDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "100 documents are enough") || r.Documents != 100 {
		t.Errorf("%d documents, error %v", r.Documents, err)
	}
}

// TestFindingsBounded: a document full of errors does not fill memory, and all
// errors are counted.
func TestFindingsBounded(t *testing.T) {
	t.Parallel()
	body := generated(func(w io.Writer) {
		fmt.Fprintf(w, head, "urlset")
		fmt.Fprint(w, `<rs:md capability="changelist" from="2024-05-01T02:00:00Z"/>`)
		for range 5000 {
			fmt.Fprint(w, "<url><loc>https://lib.example.net/a</loc><rs:md change=\"created\"/></url>\n")
		}
		fmt.Fprint(w, "</urlset>")
	})
	lastKnown := 0
	r, err := validate.Document(t.Context(), body, "x.xml", validate.Options{Advice: true, TempDir: t.TempDir(), OnFinding: func(finding.Finding) { lastKnown++ }})
	if err != nil || len(r.Findings) != 20 || lastKnown != 20 || r.Omitted != 4980 || r.Advice != 5000 {
		t.Errorf("%d findings, %d told, %d omitted, %d of advice, error %v", len(r.Findings), lastKnown, r.Omitted, r.Advice, err)
	}
}

// TestCancel: a run ends with its context.
func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone home")
	s := goodSite(t)
	open := func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
		if strings.HasSuffix(r.URI, "changes-2.xml") {
			cancel(gone)
		}
		return s.open(ctx, r)
	}
	_, err := validate.Source(ctx, open, base+".well-known/resourcesync", validate.Options{Advice: true, TempDir: t.TempDir()})
	if !errors.Is(err, gone) {
		t.Errorf("error %v, want the cause", err)
	}
}

// A lastRead is the body of a resource that has the run canceled when it is read.
type lastRead struct {
	io.ReadCloser
	cancel func()
	reads  atomic.Int32
}

func (l *lastRead) Read(p []byte) (int, error) {
	l.cancel()
	l.reads.Add(1)
	return l.ReadCloser.Read(p[:1])
}

// TestCancelResource: reading a resource ends with the context, and is not a
// finding.
func TestCancelResource(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone home")
	s := goodSite(t)
	var body lastRead
	open := func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
		a, err := s.open(ctx, r)
		if err == nil && r.Resource {
			body.ReadCloser, body.cancel = a.Body, func() { cancel(gone) }
			a.Body = &body
		}
		return a, err
	}
	r, err := validate.Source(ctx, open, base+".well-known/resourcesync", validate.Options{Sample: validate.SampleAll, Jobs: 1, TempDir: t.TempDir()})
	if !errors.Is(err, gone) || body.reads.Load() != 1 || len(r.Findings) > 0 {
		t.Errorf("%d reads, error %v, findings %v", body.reads.Load(), err, r.Findings)
	}
}

// TestHostilePackages: an invalid package, or a decompression bomb, is a
// finding.
func TestHostilePackages(t *testing.T) {
	t.Parallel()
	pack := func(write func(w *zip.Writer)) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		write(w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := pack(func(w *zip.Writer) { f, _ := w.Create("manifest.xml"); _, _ = io.WriteString(f, "<x/>") })
	damaged := bytes.Clone(good)
	damaged[45] ^= 0xff
	tests := []struct {
		name string
		data []byte
		rule string
	}{
		{"empty", nil, "RS-ZIP-03"},
		{"text", []byte("PK\x03\x04 not really"), "RS-ZIP-03"},
		{"cut off", good[:len(good)-10], "RS-ZIP-03"},
		{"damaged", damaged, "RS-ZIP-03"},
		{"no manifest", pack(func(*zip.Writer) {}), "RS-ZIP-01"},
		{"a manifest that is none", good, "RS-GEN-04"},
		{"a bomb", pack(func(w *zip.Writer) {
			f, _ := w.Create("manifest.xml")
			_, _ = fmt.Fprintf(f, head, "urlset")
			_, _ = io.CopyN(f, spaces{}, 64<<20)
		}), "RS-XML-13"},
		{"a directory without end", pack(func(w *zip.Writer) {
			for i := range 40_000 {
				_, _ = w.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i, strings.Repeat("x", 1000))})
			}
		}), "RS-ZIP-03"},
		{"a symbolic link", pack(func(w *zip.Writer) {
			h := &zip.FileHeader{Name: "link"}
			h.SetMode(fs.ModeSymlink | 0o777)
			_, _ = w.CreateHeader(h)
		}), "RS-ZIP-03"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := validate.Package(t.Context(), bytes.NewReader(tt.data), int64(len(tt.data)), "p.zip", validate.Options{Advice: true, DocumentBytes: 8 << 20, TempDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			inTable(t, r)
			for _, f := range r.Findings {
				if f.Rule == tt.rule {
					return
				}
			}
			t.Errorf("findings %v, want %s", r.Findings, tt.rule)
		})
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
