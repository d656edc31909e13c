package api

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/intake/internal/entry"
	"lockstep/resourcesync"
)

// Media types of bodies.
const typeJSON = "application/json"

// typesJSONLines are the media types in use for JSON Lines; none is registered.
var typesJSONLines = []string{"application/jsonl", "application/x-ndjson", "application/x-jsonlines", "application/jsonlines"}

// Limits of requests; each comment says what the limit prevents.
const (
	minBody       = 64 << 10 // bytes that are always allowed for a single resource
	smallBody     = 64 << 10 // bytes up to which a request does not count as large
	largeRequests = 8        // large requests at a time: memory filled by bodies and the changes decoded from them
	maxKeyBytes   = 255      // of an Idempotency-Key: no client needs more
	maxPlaces     = 100      // errors reported for one body: a response larger than the request
)

// uriOf returns the URI a request is about.
func uriOf(r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "malformed query: %v", err)
	}
	for name := range query {
		if name != "uri" {
			return "", refuse(http.StatusBadRequest, "unknown parameter %.100q; want ?uri=, with the URI percent-encoded: %%26 for &, %%2B for +, %%25 for %%", name)
		}
	}
	if n := len(query["uri"]); n != 1 {
		return "", refuse(http.StatusBadRequest, "want the parameter uri once, as ?uri=https%%3A%%2F%%2Fdata.example.org%%2Fa; it is there %d times", n)
	}
	uri := query["uri"][0]
	if err := entry.CheckURI(uri); err != nil {
		return "", refuse(http.StatusUnprocessableEntity, "parameter uri: %v", err)
	}
	return uri, nil
}

// noQuery refuses parameters where there are none.
func noQuery(r *http.Request) error {
	if r.URL.RawQuery != "" {
		return refuse(http.StatusBadRequest, "there are no parameters at this address")
	}
	return nil
}

// keyOf returns the idempotency key of a request, or "". Quotation marks, which
// an IETF draft requires around it, are not part of it.
func keyOf(r *http.Request) (string, error) {
	values := r.Header["Idempotency-Key"]
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	bad := strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
	if len(values) > 1 || key == "" || len(key) > maxKeyBytes || bad {
		return "", refuse(http.StatusBadRequest, "want one Idempotency-Key of 1 to %d printable ASCII characters, such as a UUID", maxKeyBytes)
	}
	return key, nil
}

// contentType returns the one of types that the body has.
func contentType(r *http.Request, types ...string) (string, error) {
	text := r.Header.Get("Content-Type")
	typ, params, err := mime.ParseMediaType(text)
	charset := params["charset"]
	if err != nil || !slices.Contains(types, typ) || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", &problem{Title: http.StatusText(http.StatusUnsupportedMediaType), Status: http.StatusUnsupportedMediaType,
			Detail: fmt.Sprintf("Content-Type %.100q: want %s, in UTF-8", text, strings.Join(types, " or ")), header: http.Header{"Accept": {strings.Join(types, ", ")}}}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", &problem{Title: http.StatusText(http.StatusUnsupportedMediaType), Status: http.StatusUnsupportedMediaType,
			Detail: fmt.Sprintf("Content-Encoding %.100q: want none", coding), header: http.Header{"Accept-Encoding": {"identity"}}}
	}
	return typ, nil
}

// read reads the body, up to limit bytes, within the time allowed to a client.
// Only a limited number of large bodies are in memory at a time; release makes
// room for another.
func (a *API) read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", limit)
	if r.ContentLength > limit {
		return nil, nil, tooLarge
	}
	free := func() {}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		select {
		case a.large <- struct{}{}:
			free = func() { <-a.large }
		case <-r.Context().Done():
			return nil, nil, r.Context().Err()
		}
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(a.o.BodyTime)) // not every ResponseWriter supports it; that of net/http does
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, smallBody)) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return nil, nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil, refuse(http.StatusRequestTimeout, "the body was not received within %s", a.o.BodyTime)
	case err != nil:
		return nil, nil, refuse(http.StatusBadRequest, "read the body: %v", err)
	}
	_ = control.SetReadDeadline(time.Time{}) // as above
	return buf.Bytes(), free, nil
}

// newCall returns a call for the changes that a request asks for.
func newCall(r *http.Request, key string, body []byte, batch bool, updates ...catalog.Update) *call {
	c := &call{updates: updates, batch: batch, key: key}
	if key != "" {
		h := sha256.New()
		for _, s := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type")} {
			fmt.Fprintf(h, "%d %s ", len(s), s)
		}
		h.Write(body)
		h.Sum(c.request[:0])
	}
	return c
}

// decodePut reads the body of a PUT to uri.
func decodePut(body []byte, uri string) (catalog.Update, error) {
	if err := entry.CheckFetchable(uri); err != nil {
		return catalog.Update{}, refuse(http.StatusUnprocessableEntity, "parameter uri: %v", err)
	}
	e, err := entry.Decode(body)
	if err == nil {
		switch {
		case e.Update.URI != "" && e.Update.URI != uri:
			err = &entry.Error{Field: "uri", Err: fmt.Errorf("differs from the one in the address, %s", uri)}
		case e.Change == resourcesync.Deleted:
			err = &entry.Error{Field: "change", Err: errors.New("is deleted; use DELETE instead")}
		}
	}
	if err != nil {
		return catalog.Update{}, entryProblem(err)
	}
	e.Update.URI = uri
	return e.Update, nil
}

// entryProblem is the problem with a body that is one entry.
func entryProblem(err error) error {
	var f faults
	f.add(err, problemPlace{})
	return f.problem("the body")
}

// decodeBatch reads a batch: a JSON array, or JSON Lines.
func decodeBatch(body []byte, lines bool, most int) ([]catalog.Update, error) {
	var b batch
	var err error
	if lines {
		err = b.lines(body, most)
	} else {
		err = b.array(body, most)
	}
	if err == nil && b.faults.count > 0 {
		err = b.faults.problem("the batch")
	}
	if err != nil {
		return nil, err
	}
	return b.updates, nil
}

// A batch is a batch being decoded.
type batch struct {
	updates []catalog.Update
	faults  faults
}

// add decodes one change, which begins at byte start of the body.
func (b *batch) add(text []byte, start, line int) {
	i := len(b.updates)
	e, err := entry.Decode(text)
	if err == nil && e.Update.URI == "" {
		err = &entry.Error{Field: "uri", Err: entry.ErrMissing}
	}
	if err != nil {
		b.faults.add(err, problemPlace{Index: &i, Line: line, Byte: start})
	}
	b.updates = append(b.updates, e.Update)
}

func tooMany(most int) error {
	return refuse(http.StatusRequestEntityTooLarge, "the batch has more than %d changes", most)
}

func (b *batch) lines(body []byte, most int) error {
	line, start := 0, 0
	for text := range bytes.Lines(body) {
		line++
		if len(bytes.TrimSpace(text)) > 0 {
			if len(b.updates) == most {
				return tooMany(most)
			}
			b.add(text, start, line)
		}
		start += len(text)
	}
	return nil
}

func (b *batch) array(body []byte, most int) error {
	t := entry.Text{Bytes: body}
	full := errors.New("full")
	err := t.Array(func(i int) error {
		if i == most {
			return full
		}
		start := t.At
		if err := t.Skip(0); err != nil {
			return err
		}
		b.add(body[start:t.At], start, 0)
		return nil
	})
	if errors.Is(err, full) {
		return tooMany(most)
	}
	if err == nil {
		err = t.End()
	}
	if err != nil {
		return entryProblem(err)
	}
	return nil
}

// faults collects the errors in a body.
type faults struct {
	places    []problemPlace
	count     int
	malformed bool // part of it is not JSON
}

// add adds an error of Decode; at is the position of the entry.
func (f *faults) add(err error, at problemPlace) {
	f.count++
	f.malformed = f.malformed || errors.Is(err, entry.ErrMalformed)
	if len(f.places) == maxPlaces {
		return
	}
	at.Detail = err.Error()
	if e, ok := errors.AsType[*entry.Error](err); ok {
		at.Byte += e.Offset
		at.Field, at.Detail = e.Field, e.Err.Error()
	}
	f.places = append(f.places, at)
}

// problem returns the response: 400 if the body cannot be parsed, 422 if it is
// JSON but not a valid change.
func (f *faults) problem(what string) error {
	status := http.StatusUnprocessableEntity
	if f.malformed {
		status = http.StatusBadRequest
	}
	p := &problem{Title: http.StatusText(status), Status: status, Errors: f.places, Count: f.count}
	first := f.places[0]
	place := fmt.Sprintf("byte %d", first.Byte)
	if first.Line > 0 {
		place = fmt.Sprintf("line %d, %s", first.Line, place)
	}
	if first.Index != nil {
		place = fmt.Sprintf("change %d, %s", *first.Index, place)
	}
	if first.Field != "" {
		place += ", " + first.Field
	}
	p.Detail = fmt.Sprintf("%s cannot be taken, and nothing was changed: %s: %s", what, place, first.Detail)
	if f.count > 1 {
		p.Detail += fmt.Sprintf(" (and %d more)", f.count-1)
	}
	return p
}
