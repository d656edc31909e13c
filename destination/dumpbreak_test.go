package destination_test

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// TestDumpBreaksOff: a package that breaks off is not continued with a part of something else.
func TestDumpBreaksOff(t *testing.T) {
	t.Parallel()
	for name, etag := range map[string]string{"no ETag": "", "another ETag": `"new"`, "another length": `"old"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, each: 100, noRanges: true, stored: true}})
			hash := regexp.MustCompile(` hash="sha-256:[0-9a-f]*"`)
			s.rewrite = func(path, text string) string { // nothing vouches for the package as a whole
				if strings.Contains(path, "resourcedump") {
					return hash.ReplaceAllString(text, "")
				}
				return text
			}
			for i := range 20 {
				s.put(fmt.Sprintf("/d/%03d", i), strings.Repeat(fmt.Sprint(i, "x"), 3000))
			}
			var asked atomic.Int64
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !isZip(r) {
					return false
				}
				s.mu.Lock()
				data := s.dumps.files[r.URL.Path]
				s.mu.Unlock()
				h, half := w.Header(), len(data)/2
				switch asked.Add(1) {
				case 1: // ranges are ignored, and the content breaks off
					h.Set("ETag", `"old"`)
					h.Set("Content-Length", fmt.Sprint(len(data)))
					_, _ = w.Write(data[:half])
					panic(http.ErrAbortHandler)
				case 2:
					from, more := 0, 0
					if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil || from == 0 || r.Header.Get("If-Range") != `"old"` {
						t.Errorf("Range %q, If-Range %q", r.Header.Get("Range"), r.Header.Get("If-Range"))
					}
					if etag != "" {
						h.Set("ETag", etag)
					}
					if etag == `"old"` {
						more = 7
					}
					h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)+more-1, len(data)+more))
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(bytes.Repeat([]byte("?"), len(data)+more-from))
				default:
					h.Set("ETag", `"new"`)
					_, _ = w.Write(data)
				}
				return true
			})
			m := newMirror(t, s)
			c, err := fetch.New(fetch.Options{Home: discover.Home(m.address())})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			d, err := destination.New(m.store, m.journal, c, m.opts)
			if err != nil {
				t.Fatal(err)
			}
			r, err := d.Sync(t.Context(), m.address())
			if err != nil {
				t.Fatal(err)
			}
			m.same()
			if r.Created != 20 || r.By.Package != 20 || asked.Load() != 3 {
				t.Errorf("%s by %+v, %d requests", counts(r), r.By, asked.Load())
			}
		})
	}
}
