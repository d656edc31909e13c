package historytest

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
)

// A Trouble is what is wrong with a server: one in so many requests fails.
type Trouble struct {
	each int64
	kind int
	seen atomic.Int64
}

// The kinds of Trouble.
const (
	fails      = iota // status 500
	hides             // status 404
	breaksOff         // the connection ends before an answer
	cuts              // the answer is cut short
	alters            // a byte is wrong, unless the answer is a document
	kindsCount        // how many kinds there are
)

// Trouble draws what is wrong with a server.
func (h *History) Trouble() *Trouble {
	t := &Trouble{each: int64(1 + h.IntN(6)), kind: h.IntN(kindsCount)}
	h.Tracef("trouble of kind %d, each %d", t.kind, t.each)
	return t
}

// Serve answers a request by next, or badly.
func (t *Trouble) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if t.seen.Add(1)%t.each != 0 {
		next.ServeHTTP(w, r)
		return
	}
	switch t.kind {
	case fails:
		http.Error(w, "no", http.StatusInternalServerError)
	case hides:
		http.NotFound(w, r)
	case breaksOff:
		panic(http.ErrAbortHandler)
	default:
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		b := rec.Body.Bytes()
		maps.Copy(w.Header(), rec.Header())
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.WriteHeader(rec.Code)
		if t.kind == alters && len(b) > 0 && !strings.HasSuffix(r.URL.Path, ".xml") {
			b[len(b)/2] ^= 1
		} else if t.kind == cuts {
			b = b[:len(b)/2]
		}
		_, _ = w.Write(b) // the client finds out
	}
}
