package dashboard

import (
	_ "embed"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lockstep/internal/fetch"
	"lockstep/internal/webpage"
)

const (
	pageRows = 50  // of a table on one page
	maxPages = 200 // of one table: the rows before a page are held in memory for it
)

// A column is one of a table of items.
type column[T any] struct {
	key, title string
	numeric    bool
	wide       bool              // prose
	compare    func(a, b *T) int // nil: the table cannot be sorted by it
	cell       func(item *T, now time.Time) webpage.Cell
}

// A listing is which part of a table a request asks for, and in which order.
type listing[T any] struct {
	columns []column[T]
	sorted  int // number of the column; -1: the order of the service
	down    bool
	page    int        // from 1 on
	query   url.Values // of the request, without what is above
	path    string
}

// listingOf reads the query of a request for a table at a path.
func listingOf[T any](r *http.Request, path string, columns []column[T]) (*listing[T], error) {
	l := &listing[T]{columns: columns, sorted: -1, page: 1, query: r.URL.Query(), path: path}
	if key := l.query.Get("sort"); key != "" {
		for i := range columns {
			if columns[i].key == key && columns[i].compare != nil {
				l.sorted = i
			}
		}
		if l.sorted < 0 {
			return nil, &problem{http.StatusBadRequest, fmt.Sprintf("sort %.40q: there is no such column", key)}
		}
	}
	switch order := l.query.Get("order"); order {
	case "", "asc":
	case "desc":
		l.down = true
	default:
		return nil, &problem{http.StatusBadRequest, fmt.Sprintf("order %.40q: want asc or desc", order)}
	}
	if text := l.query.Get("page"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPages {
			return nil, &problem{http.StatusBadRequest, fmt.Sprintf("page %.40q: want a number from 1 to %d", text, maxPages)}
		}
		l.page = n
	}
	for _, key := range []string{"sort", "order", "page", "format"} {
		l.query.Del(key)
	}
	return l, nil
}

// order compares two items as the request asks.
func (l *listing[T]) order(a, b *T) int {
	switch {
	case l.sorted < 0:
		return 0
	case l.down:
		return l.columns[l.sorted].compare(b, a)
	}
	return l.columns[l.sorted].compare(a, b)
}

// end returns how many items there are up to the end of the page.
func (l *listing[T]) end() int { return l.page * pageRows }

// on returns the items of the page, given those up to its end.
func (l *listing[T]) on(first []T) []T {
	return first[min((l.page-1)*pageRows, len(first)):min(l.end(), len(first))]
}

// address returns that of the table in another order, or of another page.
func (l *listing[T]) address(sorted int, down bool, page int) string {
	q := url.Values{}
	for k, v := range l.query {
		q[k] = v
	}
	if sorted >= 0 {
		q.Set("sort", l.columns[sorted].key)
	}
	if down {
		q.Set("order", "desc")
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	u := url.URL{Path: l.path, RawQuery: q.Encode()}
	return u.String()
}

// table returns the page of the table, of so many items in all.
func (l *listing[T]) table(caption, empty string, items []T, total int, mark func(*T) string, now time.Time) webpage.Table {
	t := webpage.Table{Caption: caption, Empty: empty}
	for i := range l.columns {
		c := &l.columns[i]
		head := webpage.Column{Title: c.title, Numeric: c.numeric, Wide: c.wide}
		if c.compare != nil {
			head.Sort = l.address(i, i == l.sorted && !l.down, 1)
		}
		if i == l.sorted {
			head.Sorted = map[bool]string{false: "ascending", true: "descending"}[l.down]
		}
		t.Columns = append(t.Columns, head)
	}
	for i := range items {
		row := webpage.Row{Mark: mark(&items[i])}
		for j := range l.columns {
			row.Cells = append(row.Cells, l.columns[j].cell(&items[i], now))
		}
		t.Rows = append(t.Rows, row)
	}
	if total > pageRows || l.page > 1 {
		t.Pager = l.pager(len(items), total)
	}
	return t
}

func (l *listing[T]) pager(shown, total int) *webpage.Pager {
	before := (l.page - 1) * pageRows
	p := &webpage.Pager{Label: fmt.Sprintf("%s–%s of %s", webpage.Count(min(before+1, before+shown)), webpage.Count(before+shown), webpage.Count(total))}
	last := min((total+pageRows-1)/pageRows, maxPages)
	if l.page > 1 {
		p.First, p.Previous = l.address(l.sorted, l.down, 1), l.address(l.sorted, l.down, l.page-1)
	}
	if l.page < last {
		p.Next, p.Last = l.address(l.sorted, l.down, l.page+1), l.address(l.sorted, l.down, last)
	}
	return p
}

// maxShown is how long a text in a table may be, in bytes of HTML: a page is small, whatever
// strangers have written. JSON has the whole text.
const maxShown = 240

// shorten returns the beginning of a text, without control characters.
func shorten(text string) string {
	if len(text) > 4*maxShown {
		text = strings.ToValidUTF8(text[:4*maxShown], "")
	}
	text = fetch.Printable(text)
	size := 0
	for i, c := range text {
		if size += len(html.EscapeString(string(c))); size > maxShown {
			return strings.TrimRightFunc(text[:i], func(r rune) bool { return r == utf8.RuneError }) + "…"
		}
	}
	return text
}

//go:embed list.html
var listHTML string

var listView = webpage.Parse(listHTML)

// A list is what list.html shows.
type list struct {
	Table   webpage.Table
	Filters []webpage.Link
	JSON    string
	Manage  bool // link to the page of the hub
}
