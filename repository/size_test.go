package repository_test

import (
	"fmt"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/repository"
)

// completeListSize is the number of records that a list has, or is left out: a record in
// several sets is one, and a record that was deleted and is there again, too.
func TestCompleteListSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records, o.Headers = 2, 2
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second"})
	})
	const id = "oai:example.org:1"
	for i := range 5 {
		uri := fmt.Sprint("https://example.org/", i)
		w.put(uri, "", uri)
		w.apply("x:second", catalog.Update{Record: catalog.Record{URI: uri, Length: -1}})
	}
	w.put("https://example.org/old", "", "1", recordLink(id))
	check := func(sized map[string]bool) {
		t.Helper()
		for _, list := range []string{"ListRecords", "ListIdentifiers"} {
			for _, set := range []string{"", "&set=main", "&set=second"} {
				rs := w.all("verb=" + list + "&metadataPrefix=oai_dc" + set)
				n := len(ids(rs))
				for _, r := range rs {
					token := r.Token
					if token == nil {
						token = r.Next
					}
					if token.Size != fmt.Sprint(n) && (token.Size != "" || sized[set]) {
						t.Errorf("%s%s: completeListSize %q of a list of %d", list, set, token.Size, n)
					}
				}
			}
		}
	}
	sized := map[string]bool{"&set=main": true, "&set=second": true}
	check(sized)
	w.pass(time.Minute)
	w.remove("https://example.org/0")
	w.remove("https://example.org/old")
	check(sized)
	w.pass(time.Minute)
	w.put("https://example.org/0", "", "again")
	w.put("https://example.org/new", "", "1", recordLink(id))
	check(sized)
	w.pass(time.Minute)
	w.put("https://example.org/old", "", "1", recordLink("oai:example.org:2"))
	w.remove("https://example.org/new")
	check(sized)
}
