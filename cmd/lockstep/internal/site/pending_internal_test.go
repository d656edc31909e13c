package site

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// openTestSite opens the site of an empty directory.
func openTestSite(t *testing.T) *Site {
	t.Helper()
	from, err := config.ParseArgument(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	s, err := Open(t.Context(), Options{
		BaseURL: "https://example.org/", Sets: []config.Set{{Origin: from, Hash: config.StringList{"sha-256"}}}, Command: "publish", Documents: filepath.Join(home, "out"),
		State: stateplace.In(filepath.Join(home, "state")), IO: term.IO{Err: io.Discard}, Log: slog.New(slog.DiscardHandler), Watching: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestPublishOnceHasTheRestPublished: what the first publication puts off is published
// without further changes.
func TestPublishOnceHasTheRestPublished(t *testing.T) {
	t.Parallel()
	s := openTestSite(t)
	for i, later := range []bool{false, true} {
		s.setup.Load().publish = func(context.Context) (source.Report, error) { return source.Report{Later: later}, nil }
		if _, err := s.PublishOnce(t.Context(), &sourcereport.Reporter{IO: term.IO{Err: io.Discard}, Quiet: true}); err != nil {
			t.Fatal(err)
		}
		if len(s.changed) != i {
			t.Errorf("put off: %v, and there are %d notifications", later, len(s.changed))
		}
	}
}

// TestFailedReloadHasChangesPublished: a reload ends the tasks that were about to publish
// changes, so they are published after it, also if it has failed.
func TestFailedReloadHasChangesPublished(t *testing.T) {
	t.Parallel()
	s := openTestSite(t)
	r := &reloader{site: s, start: func(*siteSet) {}, report: &sourcereport.Reporter{IO: term.IO{Err: io.Discard}, Quiet: true}}
	was := s.setup.Load()
	r.restore(&plan{}, was)
	if s.setup.Load() == was || len(s.changed) != 1 {
		t.Errorf("%d notifications after a reload that failed, want one", len(s.changed))
	}
}
