// Package accesslog records the requests that a server has answered: counted for
// monitors, and, where a file is given, as one line each in a format that existing
// programs read.
package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/ratelimit"
	"lockstep/internal/reader"
	"lockstep/source"
)

// Flags are the flags that say where requests are logged.
type Flags struct {
	file   string
	format string
}

// The formats of a log.
const (
	formatCombined = "combined" // that of Apache and nginx
	formatJSON     = "json"
)

// Declare declares the flags.
func (o *Flags) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.file, "access-log", "", "append a line for each request to `FILE`, or write it to stderr if it is -; a file that was moved away is begun again")
	flags.StringVar(&o.format, "access-log-format", formatCombined, "`FORM` of these lines: combined, as web servers write it, or json")
}

// A Log counts requests, and writes lines about them if it has a file.
type Log struct {
	tally  tally
	kind   func(path string) string
	append func(b []byte, e *entry) []byte // nil: no lines are written
	out    *file

	proxies []netip.Prefix // that are believed which client they ask for
}

// New returns a Log without a file. kind returns what kind of thing is at a path, as it
// was sent: one of few words.
func New(kind func(path string) string) *Log { return &Log{kind: kind} }

// Open opens the log; kind is that of [New]. Of requests of trusted proxies, the client is
// logged that they name.
func (o *Flags) Open(kind func(path string) string, proxies []netip.Prefix, io term.IO) (*Log, error) {
	l := New(kind)
	l.proxies = proxies
	switch o.format {
	case formatCombined, "":
		l.append = appendCombined
	case formatJSON:
		l.append = appendJSON
	default:
		return nil, term.Usagef("--access-log-format %q: want combined or json", o.format)
	}
	if o.file == "" {
		l.append = nil
		return l, nil
	}
	var err error
	if l.out, err = openFile(o.file, io); err != nil {
		return nil, term.Usage(fmt.Errorf("--access-log: %w", err), "")
	}
	return l, nil
}

// Check reports flags that cannot be used.
func (o *Flags) Check() error {
	_, err := (&Flags{format: o.format}).Open(nil, nil, term.IO{})
	return err
}

// Run writes lines to the file within a second, until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	if l.out == nil {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.out.refresh(slowWrite)
		}
	}
}

// Close writes what is left, and closes the file.
func (l *Log) Close() {
	if l.out != nil {
		l.out.close()
	}
}

// Handler returns h, with each request recorded once it has been answered.
func (l *Log) Handler(h http.Handler) http.Handler { return l.record(h, l.kind) }

// AdminHandler does so with a handler of an admin listener.
func (l *Log) AdminHandler(h http.Handler) http.Handler {
	return l.record(h, func(string) string { return kindAdmin })
}

func (l *Log) record(h http.Handler, kind func(path string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		uri := r.RequestURI // handlers may change r.URL
		var from *reader.Note
		if l.append != nil && len(r.Header["Authorization"]) > 0 {
			var ctx context.Context
			ctx, from = reader.Noting(r.Context())
			r = r.WithContext(ctx)
		}
		out, answered := &recorder{ResponseWriter: w, began: began}, false
		defer func() { // also when h panics to end the connection
			switch {
			case answered:
				out.answer(http.StatusOK)
			default:
				out.answer(http.StatusInternalServerError)
			}
			l.add(&entry{
				at: began, client: l.clientOf(r), user: from.Name(), host: r.Host, method: r.Method, uri: uri, proto: r.Proto, status: out.status, bytes: out.bytes,
				took: time.Since(began), first: out.first, referer: r.Referer(), agent: r.UserAgent(), kind: kind(pathOf(uri)),
			})
		}()
		h.ServeHTTP(out, r)
		answered = true
	})
}

// Front records a response that was sent in front of the server.
func (l *Log) Front(a *source.FrontResponse) {
	e := &entry{at: time.Now().Add(-a.Took), method: http.MethodGet, uri: a.Path, proto: "HTTP/1.1", status: http.StatusOK, bytes: int64(a.Bytes), took: a.Took, first: a.Took, kind: l.kind(a.Path)}
	if l.append != nil {
		if r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(a.Request))); err == nil { // the front has parsed it
			r.RemoteAddr = a.Remote.String()
			e.client, e.host, e.referer, e.agent = l.clientOf(r), r.Host, r.Referer(), r.UserAgent()
		}
	}
	l.add(e)
}

// add counts a request, and writes its line.
func (l *Log) add(e *entry) {
	l.tally.add(e)
	if l.append != nil {
		l.out.write(func(b []byte) []byte { return l.append(b, e) })
	}
}

// Total returns how many requests were answered that were not for pages, and how long it took
// until each answer began: how long it lasts depends on its client, and streams of events last
// for hours. Those answered with 5xx are among them, and have failed.
func (l *Log) Total() recent.Total {
	l.tally.mu.Lock()
	defer l.tally.mu.Unlock()
	return l.tally.total
}

// Figures are what monitors learn of requests.
func (l *Log) Figures(out *admin.Figures) {
	l.tally.figures(out)
	if l.out != nil {
		out.Counter("lockstep_access_log_lines_lost_total", "Lines of the access log that could not be written.", float64(l.out.lost()))
	}
}

// clientOf returns the address of the client of a request; "" if it came through a Unix
// socket, which has none.
func (l *Log) clientOf(r *http.Request) string {
	if client := ratelimit.AddressOf(r, l.proxies); client.IsValid() {
		return client.String()
	}
	return ""
}

// pathOf returns the path of a request target.
func pathOf(uri string) string {
	path, _, _ := strings.Cut(uri, "?")
	return path
}
