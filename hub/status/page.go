package status

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/hub/hubstore"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"n":       func(n int) string { return thousands(int64(n)) },
		"n64":     thousands,
		"stamp":   stamp,
		"seconds": seconds,
		"kept":    func(t Topic) string { return thousands(max(0, t.Last-t.First+1)) },
	}).Parse(pageHTML))
})

// pagePolicy allows the page only its own style: no scripts, no frames, no
// requests to other addresses.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// pageRows is how many rows a table of the page has.
const pageRows = 50

// A statusPage is what page.html shows.
type statusPage struct {
	Style         template.CSS
	URL           string
	Started       time.Time
	Stats         Stats
	Failed        []FailedVerification
	Worst         []Subscription
	Topics        []Topic
	TopicsAfter   string // there are more
	Topic         string // whose subscriptions are shown; "": those of all topics
	Subscriptions []Subscription
	After         hubstore.Key
	API           string // its path
	Auth          string // further options that curl needs
}

// Page returns a web page that shows the hub's state. api is the path at
// which [Server.API] is served. curl returns the options with which curl reaches
// the API in the same way as a request did; it may be nil. As with the API, the
// caller decides which requests may see the page.
func (s *Server) Page(api string, curl func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		select {
		case <-s.Ready:
		default: // the page would be incomplete
			header.Set("Retry-After", "1")
			http.Error(w, "the hub is starting: try again in a second", http.StatusServiceUnavailable)
			return
		}
		p := s.look(r)
		p.API = "http://" + r.Host + api
		if r.TLS != nil {
			p.API = "https://" + r.Host + api
		}
		if curl != nil {
			p.Auth = curl(r)
		}
		var b bytes.Buffer
		if err := pageTemplate().Execute(&b, p); err != nil {
			http.Error(w, "the page cannot be shown", http.StatusInternalServerError) // unreachable: tests show it
			return
		}
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Length", strconv.Itoa(b.Len()))
		_, _ = w.Write(b.Bytes()) // the client may have disconnected
	})
}

// look collects the data of the page.
func (s *Server) look(r *http.Request) *statusPage {
	q := r.URL.Query()
	p := &statusPage{Style: template.CSS(pageCSS), URL: s.URL, Started: s.Started, Stats: s.State.Stats(), Topic: q.Get("topic")}
	if p.Stats.Behind > 0 {
		p.Worst = s.State.Worst(r.Context(), pageRows)
	}
	p.Failed = s.Failed()
	p.Failed = p.Failed[:min(len(p.Failed), pageRows)]
	p.Topics, p.TopicsAfter = s.State.Topics(q.Get("topics"), pageRows)
	var more bool
	if p.Subscriptions, more = s.State.Subscriptions(r.Context(), Selection{Topic: p.Topic}, hubstore.Key(q.Get("after")), pageRows); more {
		p.After = p.Subscriptions[len(p.Subscriptions)-1].Key
	}
	return p
}

// stamp formats a time for people.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// seconds formats a duration for people.
func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%g ms", s*1000)
	}
	return fmt.Sprintf("%g s", s)
}

// thousands formats n with a comma between groups of three digits.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
