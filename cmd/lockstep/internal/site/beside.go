package site

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// An Embedding says what a Source serves besides its documents and resources.
type Embedding struct {
	Hub hubserver.Settings
	admin.Flags
}

// openHub opens the hub embedded in the Source, if there is to be one. It keeps
// its memory where the catalog is.
func (s *Site) openHub(ctx context.Context) error {
	e := s.opts.Embedding
	if e == nil || !slices.Contains(s.opts.Hubs.URLs, hubflags.Embedded) {
		return nil
	}
	base, err := source.BaseURL(s.opts.BaseURL)
	if err != nil {
		return term.Usage(err, "")
	}
	o, err := e.Hub.Options(base + hubserver.Path)
	if err != nil {
		return err
	}
	o.OwnTopics = []string{base} // the Source publishes them from here
	if file := e.Hub.PublishTokenFile; file != "" {
		tokens, err := hubserver.OpenPublishTokens("hub-publish-token-file", file, "", s.log)
		if err != nil {
			return err
		}
		o.CurrentPublishTokens = tokens.Current
	}
	keyFile := e.Hub.KeyFile
	if keyFile == "" {
		keyFile = filepath.Join(s.opts.State, hubserver.KeyName)
	}
	store := s.db.Hub()
	if o.Secret, err = hubserver.LoadKey(ctx, keyFile, store, s.log); err != nil {
		return err
	}
	o.Logger = s.log
	s.hub, err = hubserver.New(ctx, store, o)
	return err
}

// openPages makes the pages about the Source, and listens for administration.
func (s *Site) openPages(ctx context.Context) error {
	e := s.opts.Embedding
	if e == nil {
		return nil
	}
	base, err := source.BaseURL(s.opts.BaseURL)
	if err != nil {
		return term.Usage(err, "")
	}
	u, err := url.Parse(base)
	if err != nil {
		return err // unreachable: BaseURL has parsed it
	}
	if s.admin, err = e.Flags.Open(ctx, s.opts.State, true, s.opts.IO); err != nil {
		return err
	}
	m := admin.NewMetrics()
	m.Register(s.tally.Figures)
	m.Register(s.upstreams.Figures)
	m.Register(s.channelFigures)
	m.Register(s.versionFigures)
	s.database = &admin.Readiness{Check: s.db.Check, Log: s.log}
	s.Pages = admin.NewPages(u.EscapedPath(), s.admin.Guard, m, s.ready)
	s.Pages.Detail = s.upstreams.Detail
	if s.hub != nil {
		s.hubPath = u.EscapedPath() + hubserver.Path
		s.hub.Show(s.Pages, s.admin, m)
	}
	return nil
}

// ready returns why the site does not yet serve all it should, or nil if it
// does.
func (s *Site) ready() error {
	if s.hub != nil {
		return s.hub.CheckReady()
	}
	return s.database.Ready()
}

// beside serves what is at our addresses besides documents and resources, and
// reports whether r was for that.
func (s *Site) beside(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case s.Pages != nil && s.Pages.Serve(w, r):
		return true
	case s.hub != nil && r.URL.EscapedPath() == s.hubPath && !s.hidden(r):
		s.hub.ServeHTTP(w, r)
		return true
	case s.forHarvesters(r):
		s.oai.ServeHTTP(w, r)
		return true
	}
	return false
}

// hidden reports whether a resource of ours has the address of the hub, and it is
// that which is asked for: a hub takes POST, and what it says of itself on GET is
// no loss.
func (s *Site) hidden(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return s.isFile(hubserver.Path)
}

// isFile reports whether a resource of ours is at the path rel below the base
// URL.
func (s *Site) isFile(rel string) bool {
	f, _, err := s.open(rel)
	if err != nil {
		return false
	}
	_ = f.Close() // opened for nothing but to see that it is there
	return true
}
