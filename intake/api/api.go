// Package api lets applications report changes to resources over HTTP, one at a
// time or in batches. An [API] is an [net/http.Handler]; each of its sets fills one set
// of a catalog and answers a request once the change is durable.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/internal/trust"
)

// DefaultPath is the path of an [API] on its own host.
const DefaultPath = "/-/api/"

// Default limits; each comment says what the limit prevents.
const (
	defaultBatch    = 10_000    // changes of one batch: others waiting for long
	defaultBody     = 16 << 20  // bytes of a batch: memory filled by bodies
	defaultKeys     = 2_000_000 // idempotency keys remembered for a set: memory filled by them, 40 bytes each
	defaultBodyTime = 30 * time.Second
)

// KeyLife is how long an idempotency key is remembered.
const KeyLife = 24 * time.Hour

// Options configures an [API]. Only State or Notes is required.
type Options struct {
	// Sets maps the names of the sets that applications may change, as they appear
	// in URLs, to their names in the catalog. [API.Add] adds more.
	Sets map[string]string

	// State is the directory of the idempotency keys, which must survive a
	// restart. No other process may use it.
	State string

	// Notes stores the idempotency keys in place of files in State; default: none.
	Notes Notes

	// TokenFile holds one token per line; a client that sends one of them as a
	// bearer token (RFC 6750) may do everything. The file is read again when it
	// changes. Requests that Admin trusts may do everything, too. Without a
	// TokenFile all other requests are refused.
	TokenFile string

	// Admin checks the admin tokens of the process; default: there are none.
	Admin *trust.Guard

	// Path is the path below which the API is served; default [DefaultPath].
	Path string

	// Changed is called with the name of a set after changes to it have become
	// durable. It must return soon; may be nil.
	Changed func(set string)

	// Retry reports whether an error is one that another attempt may not meet, such as with another
	// process: it is answered with 503. May be nil.
	Retry func(error) bool

	MaxBatch int           // changes of one batch; default 10,000
	MaxBody  int64         // bytes of a batch; default 16 MiB; the limit for a single resource is a sixteenth of it
	MaxKeys  int           // idempotency keys remembered for each set; default 2,000,000
	BodyTime time.Duration // time in which a client must send a body; default 30 s

	Now    func() time.Time
	Logger *slog.Logger // default: discards; tokens are never logged
}

// An API is an [http.Handler] through which applications report changes to
// resources, one at a time or in batches. It answers once the change is durable in
// the catalog. Requests that arrive together are applied together.
//
// A request with an Idempotency-Key is carried out once: a repetition within
// [KeyLife] gets the first answer again, even after a crash.
//
// Below its path it serves an HTML page and openapi.json, which describe the
// operations. It is safe for concurrent use.
type API struct {
	o      Options
	routes []route
	tokens *trust.Tokens // nil: only requests that guard trusts are allowed
	guard  *trust.Guard
	large  chan struct{}

	mu   sync.Mutex // guards sets
	sets map[string]*Set
}

// New returns an API that changes the sets of cat listed in o.
func New(cat catalog.Catalog, o Options) (*API, error) {
	if o.State == "" && o.Notes == nil {
		return nil, errors.New("api: the state directory is missing")
	}
	if o.Path == "" {
		o.Path = DefaultPath
	}
	if !strings.HasPrefix(o.Path, "/") || !strings.HasSuffix(o.Path, "/") {
		return nil, fmt.Errorf("api: path %q must begin and end with a slash", o.Path)
	}
	o.MaxBatch = positive(o.MaxBatch, defaultBatch)
	o.MaxBody = positive(o.MaxBody, defaultBody)
	o.MaxKeys = positive(o.MaxKeys, defaultKeys)
	o.BodyTime = positive(o.BodyTime, defaultBodyTime)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Admin == nil {
		o.Admin = trust.NewGuard(nil)
	}
	a := &API{o: o, guard: o.Admin, routes: routes(), large: make(chan struct{}, largeRequests), sets: make(map[string]*Set)}
	if o.TokenFile != "" {
		var err error
		if a.tokens, err = trust.ReadTokens(o.TokenFile); err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Sets)) {
		if _, err := a.Add(name, cat, o.Sets[name]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// positive returns n, or otherwise if n is not positive.
func positive[T int | int64 | time.Duration](n, otherwise T) T {
	if n > 0 {
		return n
	}
	return otherwise
}

// Add lets applications change a set of cat under the given name.
func (a *API) Add(name string, cat catalog.Catalog, set string) (*Set, error) {
	if name == "" || name[0] == '.' || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") != "" {
		return nil, fmt.Errorf("api: set %q: a name has letters, digits and -._~ only", name)
	}
	if err := catalog.Check(set, nil); err != nil {
		return nil, fmt.Errorf("api: set %s: %w", name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sets[name] != nil {
		return nil, fmt.Errorf("api: set %q exists already", name)
	}
	s := &Set{
		api: a, name: name, set: set, cat: cat,
		unreported: make(chan struct{}, 1),
		inflight:   make(map[string]bool),
		keys:       newKeyLog(a.keyStore(name), a.o),
	}
	a.sets[name] = s
	return s, nil
}

// keyStore returns the store of the idempotency keys of a set.
func (a *API) keyStore(name string) keyStore {
	if a.o.Notes != nil {
		return &keyNotes{notes: a.o.Notes, prefix: "api/" + name + "/"}
	}
	return keyDir(filepath.Join(a.o.State, name))
}

// Set returns the set with the given name, or nil.
func (a *API) Set(name string) *Set {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sets[name]
}

// names returns the names of the sets, in order.
func (a *API) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.sets))
}

// Close ends the API. Requests must have ended before.
func (a *API) Close() error {
	var errs []error
	for _, name := range a.names() {
		if err := a.Set(name).keys.close(); err != nil {
			errs = append(errs, fmt.Errorf("api: set %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// A Set is a set that applications change. No other origin may fill it.
type Set struct {
	api        *API
	name       string
	set        string // its name in the catalog
	cat        catalog.Catalog
	unreported chan struct{} // signals changes not yet reported by Watch

	mu       sync.Mutex      // guards the following fields
	queue    []*call         // the first call leads if leading is set
	waiting  int             // updates in queue
	leading  bool            // a caller is carrying out calls
	inflight map[string]bool // keys of calls not yet answered
	report   intake.Report   // applied since the last report of Watch
	unsure   bool            // more may have been applied since then

	keys *keyLog // used only by the leading caller
}

// Scan does nothing: only applications know what has changed.
func (s *Set) Scan(ctx context.Context) (intake.Report, error) { return intake.Report{}, ctx.Err() }

// Watch reports changes that applications made, soon after they have become
// durable, until ctx ends; then it returns the cause. Changes made while onChange
// runs are reported together afterwards. It also calls onChange after a failure that
// may have made changes, which the Report does not count.
func (s *Set) Watch(ctx context.Context, onChange func(intake.Report)) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.unreported:
		}
		s.mu.Lock()
		r, unsure := s.report, s.unsure
		s.report, s.unsure = intake.Report{}, false
		s.mu.Unlock()
		if (unsure || r.Changed()) && onChange != nil {
			onChange(r)
		}
	}
}

// applied counts the result of an Apply and notifies Watch and Options.Changed; unsure
// says that the Apply may have made changes which are not counted.
func (s *Set) applied(a catalog.Applied, unsure bool) {
	s.mu.Lock()
	s.report.Created += int64(a.Created)
	s.report.Updated += int64(a.Updated)
	s.report.Deleted += int64(a.Deleted)
	s.report.Unchanged += int64(a.Unchanged)
	s.unsure = s.unsure || unsure
	s.mu.Unlock()
	if a.Created+a.Updated+a.Deleted == 0 && !unsure {
		return
	}
	select {
	case s.unreported <- struct{}{}:
	default: // already signaled
	}
	if s.api.o.Changed != nil {
		s.api.o.Changed(s.name)
	}
}
