package intake

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
	"lockstep/internal/trust"
)

// DefaultAPIPath is where an [API] has its place at a host of its own.
const DefaultAPIPath = "/-/api/"

// What an API accepts unless told otherwise; each says what it prevents.
const (
	defaultBatch    = 10_000    // changes of one batch: others waiting for long
	defaultBody     = 16 << 20  // bytes of a batch: memory filled by bodies
	defaultKeys     = 2_000_000 // idempotency keys remembered for a set: memory filled by them, 40 bytes each
	defaultBodyTime = 30 * time.Second
)

// KeyLife is how long an idempotency key is remembered.
const KeyLife = 24 * time.Hour

// APIOptions configures an [API]. Only State is required.
type APIOptions struct {
	// Sets are those applications may change: by the name that stands in
	// addresses, the name in the catalog. More can be added with [API.Add].
	Sets map[string]string

	// State is a directory for what must outlive a restart: idempotency keys. No
	// other process may use it.
	State string

	// TokenFile holds a token in each line; a client that sends one of them as a
	// bearer token (RFC 6750) may do everything. The file is read again when it
	// changes. Requests that Admin trusts may do everything, too, and without a
	// TokenFile no others.
	TokenFile string

	// Admin knows the admin tokens of the process; default: there are none.
	Admin *trust.Guard

	// Path is where the API has its place; default DefaultAPIPath.
	Path string

	// Changed is told the name of a set after changes of it have become durable.
	// It must return soon; may be nil.
	Changed func(set string)

	MaxBatch int           // changes of one batch; default 10,000
	MaxBody  int64         // bytes of a batch; default 16 MiB; a single resource has a sixteenth of it
	MaxKeys  int           // idempotency keys remembered for each set; default 2,000,000
	BodyTime time.Duration // a client has for sending a body; default 30 s

	Now    func() time.Time
	Logger *slog.Logger // default: discards; tokens are never logged
}

// An API is a way in for applications: an [http.Handler] by which they say what
// has changed, one resource at a time or in batches. An answer is given when
// the change is durable in the catalog. Requests that arrive together go into
// the catalog together.
//
// A request that has an Idempotency-Key is carried out once: when it comes
// again, it gets the first answer again, for KeyLife, also after a crash.
//
// Below its path it serves a page for people and openapi.json, which describe
// what there is. It is safe for concurrent use.
type API struct {
	o      APIOptions
	routes []apiRoute
	tokens *trust.Tokens // nil: only requests that guard trusts
	guard  *trust.Guard
	large  chan struct{}

	mu   sync.Mutex // guards sets
	sets map[string]*APISet
}

// NewAPI returns an API by which the sets of cat are changed.
func NewAPI(cat catalog.Catalog, o APIOptions) (*API, error) {
	if o.State == "" {
		return nil, errors.New("api: no directory for its state is given")
	}
	if o.Path == "" {
		o.Path = DefaultAPIPath
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
	a := &API{o: o, guard: o.Admin, routes: apiRoutes(), large: make(chan struct{}, largeRequests), sets: make(map[string]*APISet)}
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

// positive returns n, or if that is not above 0, the default.
func positive[T int | int64 | time.Duration](n, otherwise T) T {
	if n > 0 {
		return n
	}
	return otherwise
}

// Add lets applications change, by name, a set of cat.
func (a *API) Add(name string, cat catalog.Catalog, set string) (*APISet, error) {
	if name == "" || name[0] == '.' || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") != "" {
		return nil, fmt.Errorf("api: set %q: a name has letters, digits and -._~ only", name)
	}
	if err := catalog.Check(set, nil); err != nil {
		return nil, fmt.Errorf("api: set %s: %w", name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sets[name] != nil {
		return nil, fmt.Errorf("api: set %q is there already", name)
	}
	s := &APISet{
		api: a, name: name, set: set, cat: cat,
		news:     make(chan struct{}, 1),
		inflight: make(map[string]bool),
		keys:     newKeyLog(filepath.Join(a.o.State, name), a.o),
	}
	a.sets[name] = s
	return s, nil
}

// Set returns the set applications call name, or nil.
func (a *API) Set(name string) *APISet {
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

// An APISet is a set that applications change. Only it may fill the set.
type APISet struct {
	api  *API
	name string
	set  string // its name in the catalog
	cat  catalog.Catalog
	news chan struct{} // there are changes not yet told to Watch

	mu       sync.Mutex      // guards what follows
	queue    []*apiCall      // the first of them leads, if leading
	waiting  int             // updates in queue
	leading  bool            // somebody carries calls out
	inflight map[string]bool // keys of calls not yet answered
	report   Report          // what was applied since Watch was told

	keys *keyLog // belongs to whoever leads
}

// Scan does nothing: what applications do not say, nobody knows.
func (s *APISet) Scan(ctx context.Context) (Report, error) { return Report{}, ctx.Err() }

// Watch tells of changes that applications made, soon after they have become
// durable, until ctx ends; then it returns the cause. What happens while
// onChange runs is told together afterwards.
func (s *APISet) Watch(ctx context.Context, onChange func(Report)) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.news:
		}
		s.mu.Lock()
		r := s.report
		s.report = Report{}
		s.mu.Unlock()
		if r.Changed() && onChange != nil {
			onChange(r)
		}
	}
}

// applied tells of an Apply whoever wants to know.
func (s *APISet) applied(a catalog.Applied) {
	s.mu.Lock()
	s.report.Created += int64(a.Created)
	s.report.Updated += int64(a.Updated)
	s.report.Deleted += int64(a.Deleted)
	s.report.Unchanged += int64(a.Unchanged)
	s.mu.Unlock()
	if a.Created+a.Updated+a.Deleted == 0 {
		return
	}
	select {
	case s.news <- struct{}{}:
	default: // already told
	}
	if s.api.o.Changed != nil {
		s.api.o.Changed(s.name)
	}
}
