package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"lockstep/catalog"
	"lockstep/internal/trust"
)

// A reply is a response that is not an error.
type reply struct {
	status   int
	body     []byte
	replayed bool // a repetition of the first response to the same request
}

// A problem is an error response (RFC 9457), and the error from which it was made.
type problem struct {
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []problemPlace `json:"errors,omitempty"` // errors in the body, at most maxPlaces
	Count  int            `json:"error_count,omitempty"`

	header http.Header // additional header fields
}

// A problemPlace is one error in a body and its position.
type problemPlace struct {
	Index  *int   `json:"index,omitempty"` // of the change in a batch, from 0
	Line   int    `json:"line,omitempty"`  // of JSON Lines, from 1
	Byte   int    `json:"byte"`            // of the body, from 0
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail"`
}

// Error returns the detail of the problem.
func (p *problem) Error() string { return p.Detail }

// refuse returns a problem as an error.
func refuse(status int, format string, args ...any) error {
	return &problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// A route is an operation: one method at one path.
type route struct {
	method, path string // the path below the path of the API; {set} is the name of a set
	about        bool   // the operation describes the API
	handle       func(a *API, s *Set, w http.ResponseWriter, r *http.Request) (*reply, error)
}

// routes returns all operations; openapi.json describes them.
func routes() []route {
	return []route{
		{method: "GET", path: "", about: true, handle: (*API).page},
		{method: "GET", path: "openapi.json", about: true, handle: (*API).description},
		{method: "GET", path: "v1/sets", handle: (*API).list},
		{method: "GET", path: "v1/sets/{set}", handle: (*API).status},
		{method: "GET", path: "v1/sets/{set}/resources", handle: (*API).get},
		{method: "PUT", path: "v1/sets/{set}/resources", handle: (*API).put},
		{method: "DELETE", path: "v1/sets/{set}/resources", handle: (*API).delete},
		{method: "POST", path: "v1/sets/{set}/changes", handle: (*API).changes},
	}
}

// ServeHTTP answers requests below [Options.Path]. The request paths must be
// unmodified, as the client sent them.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	reply, err := a.serve(w, r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if reply == nil {
		return // an error was already sent
	}
	if reply.replayed {
		header.Set("Idempotency-Replayed", "true")
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(reply.status)
	_, _ = w.Write(reply.body) // the client has disconnected
}

// serve finds the requested operation and carries it out.
func (a *API) serve(w http.ResponseWriter, r *http.Request) (*reply, error) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), a.o.Path)
	if !ok {
		return nil, refuse(http.StatusNotFound, "the API is below %s", a.o.Path)
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allow []string
	for i := range a.routes {
		route := &a.routes[i]
		name, ok := matchRoute(route.path, rest)
		if !ok {
			continue
		}
		if err := a.authorize(r); err != nil {
			return nil, err
		}
		var s *Set
		if name != "" {
			if s = a.Set(name); s == nil {
				return nil, refuse(http.StatusNotFound, "there is no set %.100q here; there are: %s", name, strings.Join(a.names(), ", "))
			}
		}
		if route.method == method {
			return route.handle(a, s, w, r)
		}
		allow = append(allow, route.method)
		if route.method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	if len(allow) == 0 {
		return nil, refuse(http.StatusNotFound, "there is nothing at this address; see %s for the operations", a.o.Path)
	}
	p := &problem{Title: http.StatusText(http.StatusMethodNotAllowed), Status: http.StatusMethodNotAllowed,
		Detail: "possible here: " + strings.Join(allow, ", "), header: http.Header{"Allow": {strings.Join(allow, ", ")}}}
	return nil, p
}

// matchRoute reports whether path matches a route, and which set it names.
func matchRoute(route, path string) (set string, ok bool) {
	before, after, named := strings.Cut(route, "{set}")
	if !named {
		return "", route == path
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok || len(rest) < len(after) {
		return "", false
	}
	set, ok = strings.CutSuffix(rest, after)
	if !ok || set == "" || strings.Contains(set, "/") {
		return "", false
	}
	if name, err := url.PathUnescape(set); err == nil {
		set = name
	}
	return set, true
}

// fail sends an error as a problem. It contains the only table from errors to statuses.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		status := http.StatusInternalServerError
		switch {
		case errors.Is(err, syscall.ENOSPC):
			status = http.StatusInsufficientStorage
		case errors.Is(err, errManyKeys), errors.Is(err, trust.ErrTokens), errors.Is(err, context.Canceled), a.o.Retry != nil && a.o.Retry(err):
			status = http.StatusServiceUnavailable
		default:
			a.o.Logger.ErrorContext(r.Context(), "cannot answer", slog.String("path", r.URL.Path), slog.Any("err", err))
		}
		p = &problem{Title: http.StatusText(status), Status: status, Detail: err.Error()}
	}
	header := w.Header()
	for name, values := range p.header {
		header[name] = values
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusConflict {
		header.Set("Retry-After", "1")
	}
	header.Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(toJSON(p)) // the client has disconnected
}

// jsonReply returns a reply with v as its body.
func jsonReply(status int, v any) *reply { return &reply{status: status, body: toJSON(v)} }

// toJSON returns v as one line of JSON.
func toJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // only for types of this package that JSON cannot represent
	}
	return b.Bytes()
}

// list replies with the names of the sets.
func (a *API) list(_ *Set, _ http.ResponseWriter, _ *http.Request) (*reply, error) {
	return jsonReply(http.StatusOK, struct {
		Sets []string `json:"sets"`
	}{a.names()}), nil
}

// A setAnswer describes a set.
type setAnswer struct {
	Set       string      `json:"set"`
	Resources int64       `json:"resources"`
	Seq       catalog.Seq `json:"seq"`                // of the newest change; 0 if there is none
	Datetime  string      `json:"datetime,omitempty"` // of the newest change
}

// status replies with the state of a set.
func (a *API) status(s *Set, _ http.ResponseWriter, r *http.Request) (*reply, error) {
	st, err := s.cat.Status(r.Context(), s.set)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, setAnswer{s.name, st.Resources, st.Last, datetime(st.LastTime)}), nil
}

// get replies with the catalog's record of a resource.
func (a *API) get(s *Set, _ http.ResponseWriter, r *http.Request) (*reply, error) {
	uri, err := uriOf(r)
	if err != nil {
		return nil, err
	}
	for rec, err := range s.cat.Resources(r.Context(), s.set, catalog.Range{From: uri}) {
		if err != nil {
			return nil, err
		}
		if rec.URI == uri {
			return jsonReply(http.StatusOK, view(&rec)), nil
		}
		break
	}
	return nil, refuse(http.StatusNotFound, "there is no resource %s in the set %s", uri, s.name)
}

// put creates or updates a resource as the body describes it.
func (a *API) put(s *Set, w http.ResponseWriter, r *http.Request) (*reply, error) {
	uri, err := uriOf(r)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	if _, err := contentType(r, typeJSON); err != nil {
		return nil, err
	}
	body, release, err := a.read(w, r, max(a.o.MaxBody/16, minBody))
	if err != nil {
		return nil, err
	}
	defer release()
	u, err := decodePut(body, uri)
	if err != nil {
		return nil, err
	}
	return s.do(r.Context(), newCall(r, key, body, false, u))
}

// delete records that a resource was deleted.
func (a *API) delete(s *Set, _ http.ResponseWriter, r *http.Request) (*reply, error) {
	uri, err := uriOf(r)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	if r.ContentLength != 0 {
		return nil, refuse(http.StatusBadRequest, "a DELETE has no body")
	}
	return s.do(r.Context(), newCall(r, key, nil, false, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}))
}

// changes applies a batch of changes, all or none.
func (a *API) changes(s *Set, w http.ResponseWriter, r *http.Request) (*reply, error) {
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	if err := noQuery(r); err != nil {
		return nil, err
	}
	typ, err := contentType(r, append([]string{typeJSON}, typesJSONLines...)...)
	if err != nil {
		return nil, err
	}
	body, release, err := a.read(w, r, a.o.MaxBody)
	if err != nil {
		return nil, err
	}
	defer release()
	updates, err := decodeBatch(body, typ != typeJSON, a.o.MaxBatch)
	if err != nil {
		return nil, err
	}
	if len(updates) == 0 {
		return batchReply(0, nil), nil
	}
	return s.do(r.Context(), newCall(r, key, body, true, updates...))
}
