package atompmh_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/intake/harvest/atompmh"
	"lockstep/intake/harvest/ledger"
)

var errEnds = errors.New("the process ends here")

// An ending is the end of a process at one of the operations of its stores: before
// the operation, or behind it.
type ending struct {
	left   int // operations until then
	behind bool
	struck bool
}

// do does an operation.
func (f *ending) do(op func() error) error {
	if f.struck {
		return errEnds // the process is no more
	}
	if f.left--; f.left != 0 {
		return op()
	}
	f.struck = true
	if f.behind {
		_ = op() // its result is lost
	}
	return errEnds
}

type endingCatalog struct {
	catalog.Catalog
	*ending
}

func (c endingCatalog) Apply(ctx context.Context, set string, us []catalog.Update) (a catalog.Applied, err error) {
	err = c.do(func() error {
		a, err = c.Catalog.Apply(ctx, set, us)
		return err
	})
	return a, err
}

func (c endingCatalog) Status(ctx context.Context, set string) (st catalog.Status, err error) {
	err = c.do(func() error {
		st, err = c.Catalog.Status(ctx, set)
		return err
	})
	return st, err
}

type endingLedger struct {
	ledger.Ledger
	*ending
}

func (l endingLedger) Lookup(ctx context.Context, set string, ids []string) (rows []ledger.Row, err error) {
	err = l.do(func() error {
		rows, err = l.Ledger.Lookup(ctx, set, ids)
		return err
	})
	return rows, err
}

func (l endingLedger) Owners(ctx context.Context, set string, uris []string, except func(string) bool) (ids []string, err error) {
	err = l.do(func() error {
		ids, err = l.Ledger.Owners(ctx, set, uris, except)
		return err
	})
	return ids, err
}

func (l endingLedger) Record(ctx context.Context, set string, put []ledger.Row, drop []string) error {
	return l.do(func() error { return l.Ledger.Record(ctx, set, put, drop) })
}

func (l endingLedger) Rows(ctx context.Context, set string) iter.Seq2[ledger.Row, error] {
	if err := l.do(func() error { return nil }); err != nil {
		return func(yield func(ledger.Row, error) bool) { yield(ledger.Row{}, err) }
	}
	return l.Ledger.Rows(ctx, set)
}

// A harvest that ends at any operation, and a feed that says something else of its
// records by the next one: nothing is lost, and nothing stays that is on no
// record's account.
func TestFeedFaults(t *testing.T) {
	t.Parallel()
	first := feedOf("11:00", "", live("a", "10:00", "/a", "/a.rdf"), live("b", "10:10"), live("c", "10:20", "/x"), live("d", "10:30", "/x"), dead("e", "10:40"), live("f", "11:00"))
	second := feedOf("13:00", "", live("a", "12:00", "/a2", "/a.rdf"), dead("b", "12:10"), dead("c", "12:20"), live("d", "12:30", "/d"), live("e", "12:40"),
		live("f", "11:00"), live("g", "12:50", "/x"), live("h", "13:00", "/b"), dead("i", "13:00"))
	for name, then := range map[string]string{
		"same":    second,
		"back":    strings.Replace(first, "</feed>", dead("g", "10:01")+dead("h", "10:01")+dead("i", "10:01")+"</feed>", 1), // from a backup
		"onwards": feedOf("15:00", "", dead("a", "14:00"), live("b", "14:10"), live("c", "14:20"), live("d", "12:30", "/d"), dead("e", "14:30"), live("f", "11:00"), dead("g", "14:40"), live("h", "15:00", "/a2"), live("i", "14:50")),
	} {
		for _, head := range []string{"", complete} {
			for _, behind := range []bool{false, true} {
				t.Run(fmt.Sprint(name, head, behind), func(t *testing.T) {
					t.Parallel()
					s := newFeedSite(t)
					strikes(t, s, behind, name == "back", head, []string{first, second, then})
				})
			}
		}
	}
}

// strikes has harvests of the feeds, one after the other, end at each operation in
// turn, and be repeated with the last of the feeds.
func strikes(t *testing.T, s *feedSite, behind, full bool, head string, feeds []string) {
	const mark = "<author>"
	for i := range feeds {
		feeds[i] = strings.Replace(feeds[i], mark, head+mark, 1)
	}
	last := feeds[len(feeds)-1]
	fresh := follow(t, s, atompmh.Options{AllowEmpty: true})
	s.put(map[string]string{"/feed": last})
	fresh.run()
	want := holding(t, fresh.cat)
	for n := 1; ; n++ {
		h := follow(t, s, atompmh.Options{AllowEmpty: true})
		cat, ledger := h.cat, h.ledger
		f := &ending{left: n, behind: behind}
		h.cat, h.ledger = endingCatalog{cat, f}, endingLedger{ledger, f}
		for _, text := range feeds[:len(feeds)-1] {
			h.reopen(h.o)
			s.put(map[string]string{"/feed": text})
			if _, err := h.Scan(t.Context()); err != nil && !errors.Is(err, errEnds) {
				t.Fatal(err)
			}
		}
		h.cat, h.ledger = cat, ledger
		h.reopen(h.o)
		s.put(map[string]string{"/feed": last})
		_, err := h.Harvest(t.Context(), full) // AP-HV-02: only a full one may go back
		must(t, err)
		if got := holding(t, h.cat); !slices.Equal(got, want) {
			t.Errorf("ended at operation %d, the catalog holds\n%q, want\n%q", n, got, want)
		}
		var gone []string
		for _, id := range strings.Split("abcdefghi", "") {
			gone = append(gone, dead(id, "16:00"))
		}
		s.put(map[string]string{"/feed": feedOf("16:00", "", gone...)})
		h.run()
		h.holds("")
		if !f.struck {
			if n < 15 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}

// holding is what the catalog says of each resource.
func holding(t *testing.T, cat catalog.Catalog) (all []string) {
	t.Helper()
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		must(t, err)
		all = append(all, fmt.Sprint(r.URI, " ", r.Type, " ", r.Lastmod.Format("15:04"), " ", r.Links))
	}
	return all
}
