package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/health"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/internal/webpage"
)

// sets shows what the service publishes or follows: sets, upstreams, mirrors.
func (d *Dashboard) sets(r *http.Request, o *Overview) (any, webpage.Page, *webpage.View, error) {
	if d.opts.Process == nil {
		return nil, webpage.Page{}, nil, &problem{http.StatusNotFound, "a hub has topics and subscribers, and no sets"}
	}
	l, err := listingOf(r, "sets", setColumns(o.title))
	if err != nil {
		return nil, webpage.Page{}, nil, err
	}
	rows := slices.Clone(o.rows)
	sort.SliceStable(rows, func(i, j int) bool { return l.order(&rows[i], &rows[j]) < 0 })
	shown := l.on(rows)
	title := map[string]string{"Set": "Sets", "Upstream": "Upstreams"}[o.title]
	table := l.table(title, "There are none.", shown, len(rows), func(u *upstreams.Row) string {
		if u.State == aggregator.StateFailing || u.Error != "" {
			return "bad"
		}
		return ""
	}, o.At)
	if shown == nil {
		shown = []upstreams.Row{}
	}
	page := webpage.Page{Title: title, Lead: o.Summary, Nav: "sets", Data: list{Table: table, JSON: jsonOf("sets", r)}}
	return map[string]any{"sets": shown, "total": len(rows), "page": l.page}, page, listView, nil
}

// setColumns are those of the command status.
func setColumns(title string) []column[upstreams.Row] {
	type row = upstreams.Row
	text := func(of func(*row) string) func(*row, time.Time) webpage.Cell {
		return func(u *row, _ time.Time) webpage.Cell { return webpage.Cell{Text: shorten(of(u))} }
	}
	state := func(u *row) string { return health.RowOf(u).State }
	return []column[row]{
		{"name", title, false, false, func(a, b *row) int { return strings.Compare(a.Label(), b.Label()) }, func(u *row, _ time.Time) webpage.Cell {
			return webpage.Cell{Text: shorten(u.Label()), Title: shorten(u.URL), Code: true}
		}},
		{"state", "State", false, false, func(a, b *row) int { return strings.Compare(state(a), state(b)) }, text(state)},
		{"success", "Last success", false, false, func(a, b *row) int { return a.LastSuccess.Compare(b.LastSuccess) }, func(u *row, now time.Time) webpage.Cell {
			return ago(u.LastSuccess, now)
		}},
		{"next", "Next", false, false, func(a, b *row) int { return a.Next.Compare(b.Next) }, func(u *row, now time.Time) webpage.Cell { return ago(u.Next, now) }},
		{"pending", "Pending", true, false, func(a, b *row) int { return cmp.Compare(a.Pending, b.Pending) }, text(func(u *row) string { return webpage.Count(u.Pending) })},
		{"resources", "Resources", true, false, func(a, b *row) int { return cmp.Compare(resources(a), resources(b)) }, text(func(u *row) string {
			if u.Resources == nil {
				return ""
			}
			return webpage.Count(*u.Resources)
		})},
		{"error", "Error", false, true, func(a, b *row) int { return strings.Compare(a.Error, b.Error) }, text(func(u *row) string { return u.Error })},
		{"hint", "What to do", false, true, nil, text(func(u *row) string { return u.Hint })},
	}
}

// resources returns how many resources an upstream has; -1 if that is not counted.
func resources(u *upstreams.Row) int64 {
	if u.Resources == nil {
		return -1
	}
	return *u.Resources
}

// ago says how long ago a time was.
func ago(t, now time.Time) webpage.Cell {
	return webpage.Cell{Text: webpage.Ago(t, now), Title: webpage.Stamp(t)}
}
