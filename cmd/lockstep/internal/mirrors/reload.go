package mirrors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/syncing"
	"lockstep/cmd/lockstep/internal/term"
)

// reload reads the configuration file again, and follows the mirrors that it describes now.
// Those that have not changed are not interrupted. If the file cannot be used, nothing
// changes.
func (g *group) reload(ctx context.Context) {
	entries, err := g.reread()
	if err != nil {
		term.ReportWarning(g.io, term.WithHint(fmt.Errorf("the configuration stays as it was: %w", err), term.HintOf(err)))
		return
	}
	was := map[string]*member{}
	for _, m := range g.all() {
		was[m.name] = m
	}
	var added, changed, removed []string
	stays := map[string]bool{}
	for _, e := range entries {
		switch m := was[e.name]; {
		case m == nil:
			added = append(added, e.name)
		case m.same(e):
			stays[e.name] = true
		default:
			changed = append(changed, e.name)
		}
	}
	for _, m := range was {
		if !stays[m.name] {
			m.stop()
			if !slices.Contains(changed, m.name) {
				removed = append(removed, m.name)
			}
		}
	}
	for _, m := range was { // before another mirror gets its place
		if !stays[m.name] {
			<-m.done
			_ = m.run.Conclude(nil) // it only prints
		}
	}
	g.shared.join(entries)
	var members []*member
	for _, e := range entries {
		if stays[e.name] {
			members = append(members, was[e.name])
		} else {
			members = append(members, g.start(ctx, e))
		}
	}
	g.mu.Lock()
	g.members = members
	g.mu.Unlock()
	slices.Sort(removed)
	g.io.Errorf("note: the configuration was read again: %s\n", difference(added, changed, removed))
}

// difference says which mirrors are others than before.
func difference(added, changed, removed []string) string {
	var parts []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", added}, {"changed", changed}, {"removed", removed}} {
		if len(part.names) > 0 {
			parts = append(parts, part.what+" "+strings.Join(part.names, ", "))
		}
	}
	if len(parts) == 0 {
		return "it is the one in use"
	}
	return strings.Join(parts, "; ")
}

// same reports whether the mirror is followed as e describes it.
func (m *member) same(e *entry) bool {
	return maps.EqualFunc(m.values, e.values, slices.Equal[[]string])
}

// reread reads the configuration file as it is now. It fails if the file has changed what
// requires a restart.
func (g *group) reread() ([]*entry, error) {
	file := &Flags{config: g.file.config, given: g.file.given}
	one := &following.Flags{Sync: syncing.Flags{Out: g.one.Sync.Out}}
	flags := pflag.NewFlagSet("follow", pflag.ContinueOnError)
	one.Declare(flags)
	file.Declare(flags)
	if err := config.Give(flags, g.given); err != nil {
		return nil, err
	}
	entries, err := file.read(flags, g.names, g.one.Sync.Out, g.check)
	if err != nil {
		return nil, err
	}
	if keys := config.Differences(g.flags, flags); len(keys) > 0 {
		return nil, term.WithHint(fmt.Errorf("%s: these keys can only change with a restart", strings.Join(keys, ", ")), "restart lockstep follow, or write the values that they had")
	}
	return entries, nil
}
