package origins

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"

	"lockstep/intake/api"
	"lockstep/internal/trust"
	"lockstep/source"
)

// APIDir is where the API is, below the base URL.
const APIDir = "-/api/"

// An API is what applications call to fill sets. Nothing is served before a set is
// opened that it fills.
type API struct {
	BaseURL   string
	State     string           // directory of its state
	Keys      api.Notes        // where it stores idempotency keys; nil: in its directory
	TokenFile string           // clients that send a token in it may change sets; "": none may
	Admin     *trust.Guard     // of requests with the admin token; may be nil
	Retry     func(error) bool // errors that another attempt may not meet; see [api.Options]; may be nil
	Log       *slog.Logger

	handler *api.API // nil: no set is filled through it
	path    string   // of the handler
}

// add returns the origin of a set that applications fill.
func (a *API) add(s *Set) (Origin, error) {
	if a.handler == nil {
		base, err := source.BaseURL(a.BaseURL)
		if err != nil {
			return nil, err
		}
		_, host, _ := strings.Cut(base, "://")
		_, path, _ := strings.Cut(host, "/")
		a.path = "/" + path + APIDir
		a.handler, err = api.New(s.Catalog, api.Options{
			State: filepath.Join(a.State, "api"), Notes: a.Keys, TokenFile: a.TokenFile, Admin: a.Admin, Path: a.path, Retry: a.Retry, Logger: a.Log,
		})
		if err != nil {
			return nil, err
		}
	}
	return a.handler.Add(s.Name, s.Catalog, s.List)
}

// Used reports whether a set is filled through the API.
func (a *API) Used() bool { return a.handler != nil }

// Serve answers a request to the API, and reports whether r is one.
func (a *API) Serve(w http.ResponseWriter, r *http.Request) bool {
	if a.handler == nil || !strings.HasPrefix(r.URL.EscapedPath(), a.path) {
		return false
	}
	a.handler.ServeHTTP(w, r)
	return true
}

// Close closes the state of the API.
func (a *API) Close() error {
	if a.handler == nil {
		return nil
	}
	return a.handler.Close()
}
