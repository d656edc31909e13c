package repository_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/catalog"
	"lockstep/repository"
	"lockstep/resourcesync"
)

func recordLink(id string) resourcesync.Link {
	return resourcesync.Link{Rel: catalog.RelRecord, Href: id}
}

// A resource that had an identifier before another one does not take the record of that
// one with it when it is there again.
func TestFormerOwner(t *testing.T) {
	t.Parallel()
	const id = "oai:example.org:1"
	for _, links := range [][]resourcesync.Link{nil, {recordLink("oai:example.org:2")}, {recordLink(id)}} {
		w := newWorld(t, nil)
		w.put("https://example.org/old", "", "1", recordLink(id))
		w.ask("verb=Identify")
		w.pass(time.Minute)
		w.remove("https://example.org/old")
		w.put("https://example.org/new", "", "2", recordLink(id))
		wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id)}, id)
		for range 2 {
			w.pass(time.Minute)
			w.put("https://example.org/old", "", w.now.String(), links...)
			wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id)}, id)
			w.pass(time.Minute)
			w.remove("https://example.org/old")
			wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id)}, id)
		}
	}
}

// A record that has moved to another resource exists: harvesters have it once, with its
// identifier, whichever of the two changes came first, whether or not a harvest was
// between them, and also if the catalog has forgotten them.
func TestMoved(t *testing.T) {
	t.Parallel()
	const id = "oai:example.org:1"
	n := 0
	for _, to := range []string{"https://example.org/a", "https://example.org/z"} {
		for _, oldLinks := range [][]resourcesync.Link{{recordLink(id)}, nil} { // it may have been its own URI
			for _, createFirst := range []bool{false, true} {
				for _, between := range []bool{false, true} {
					for _, forgotten := range []bool{false, true} {
						n++
						name := fmt.Sprintf("%d: to %s, from %v, create first %v, harvest between %v, forgotten %v", n, to, oldLinks, createFirst, between, forgotten)
						t.Run(name, func(t *testing.T) {
							t.Parallel()
							from, id := "https://example.org/m", id
							if oldLinks == nil {
								id = from
							}
							w := newWorld(t, func(o *repository.Options) { o.Records = 2 })
							const text = `<r xmlns="urn:example:r">%s</r>`
							w.put(from, "text/xml", fmt.Sprintf(text, "old"), oldLinks...)
							w.put("https://example.org/other", "text/xml", fmt.Sprintf(text, "other"))
							hs := []*harvester{{w: w, format: "oai_dc"}, {w: w, format: w.ask("verb=ListMetadataFormats").Formats[1].Prefix}}
							harvest := func() {
								for _, h := range hs {
									if h.held == nil {
										h.held = make(map[string]string)
									}
									for h.step(); h.token != ""; {
										h.step()
									}
								}
							}
							harvest()
							create := func() { w.put(to, "text/xml", fmt.Sprintf(text, "new"), recordLink(id)) }
							remove := func() { w.remove(from) }
							steps := []func(){remove, create}
							if createFirst {
								slices.Reverse(steps)
							}
							for i, step := range steps {
								w.pass(time.Minute)
								step()
								if forgotten && (i == 1 || between) {
									w.pass(time.Minute)
									if err := w.catalog.Forget(t.Context(), listURI, w.mark(listURI)); err != nil {
										t.Fatal(err)
									}
								}
								if i == 0 && between {
									w.pass(time.Minute)
									harvest()
								}
							}
							w.pass(time.Minute)
							harvest()
							for _, h := range hs {
								if _, ok := h.held[id]; !ok || len(h.held) != 2 {
									t.Errorf("a harvester of %s has %q", h.format, h.held)
								}
							}
							if got := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id).Got; len(got) != 1 || got[0].Header.Status != "" {
								t.Errorf("GetRecord: %+v", got)
							}
							if got := ids(w.all("verb=ListIdentifiers&metadataPrefix=oai_dc")); slices.Contains(got, "-"+id) || len(got) != 2 && !(between && createFirst) {
								t.Errorf("the list has %q", got)
							}
						})
					}
				}
			}
		}
	}
}

// An identifier that a resource has given up is reported as deleted.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const text = `<r xmlns="urn:example:r"/>`
	w.put("https://example.org/1", "text/xml", text, recordLink("oai:example.org:1"))
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	w.pass(time.Minute)
	w.put("https://example.org/1", "text/xml", text+" ", recordLink("oai:example.org:one"))
	for _, format := range []string{"oai_dc", prefix} {
		wantIDs(t, w.all("verb=ListRecords&metadataPrefix="+format), "oai:example.org:one", "-oai:example.org:1")
	}
	w.pass(time.Minute)
	w.put("https://example.org/1", "text/xml", text, recordLink("oai:example.org:1")) // is back
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix="+prefix), "oai:example.org:1", "-oai:example.org:one")
	w.pass(time.Minute)
	w.put("https://example.org/1", "text/xml", text)
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix="+prefix), "-oai:example.org:one", "https://example.org/1", "-oai:example.org:1")
}

// TestConvergenceOfRecords harvests random histories in which records move between
// resources, and documents cannot be read for a while: in the end a harvester has the
// document of each resource once.
func TestConvergenceOfRecords(t *testing.T) {
	t.Parallel()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > *histories {
			return
		}
		convergeRecords(t, rt)
	})
}

func convergeRecords(t *testing.T, rt *rapid.T) {
	w := newWorld(t, func(o *repository.Options) { o.Records = 3 })
	const first = `<r xmlns="urn:example:format"/>`
	w.put("x:first", "text/xml", first)
	hs := []*harvester{{w: w, format: "oai_dc"}, {w: w, format: w.ask("verb=ListMetadataFormats").Formats[1].Prefix}}
	for _, h := range hs {
		h.held = make(map[string]string)
	}
	present := map[string]string{"x:first": first}
	identifiers := []string{"", "id:a", "id:b", "x:0", "x:1", "x:2"}
	for version := range rapid.IntRange(0, 60).Draw(rt, "steps") {
		uri := fmt.Sprint("x:", rapid.IntRange(0, 4).Draw(rt, "uri"))
		switch rapid.IntRange(0, 12).Draw(rt, "step") {
		case 0, 1, 2, 3:
			var links []resourcesync.Link
			if id := rapid.SampledFrom(identifiers).Draw(rt, "identifier"); id != "" {
				links = append(links, recordLink(id))
			}
			present[uri] = fmt.Sprintf(`<r xmlns="urn:example:format">%s in version %d</r>`, uri, version)
			w.put(uri, "text/xml", present[uri], links...)
		case 4, 5, 6:
			delete(present, uri)
			w.remove(uri)
		case 7:
			w.pass(time.Duration(rapid.IntRange(0, 8000).Draw(rt, "ms")) * time.Millisecond)
		case 8:
			if err := w.catalog.Forget(w.Context(), listURI, w.mark(listURI)); err != nil {
				t.Fatal(err)
			}
			w.restart()
		case 9:
			w.fail(uri, errors.New("input/output error"))
		case 10:
			w.fail(uri, nil)
		default:
			hs[rapid.IntRange(0, 1).Draw(rt, "harvester")].step()
		}
	}
	for i := range 5 {
		w.fail(fmt.Sprint("x:", i), nil)
	}
	w.pass(time.Minute)
	for _, h := range hs {
		for done := false; !done; done = h.token == "" {
			h.step()
		}
		h.step() // harvest changes made meanwhile
		for h.token != "" {
			h.step()
		}
		want := slices.Sorted(maps.Keys(present))
		var got []string
		for _, text := range h.held {
			for uri := range present {
				if text == present[uri] || strings.Contains(text, "<dc:format>text/xml</dc:format>\n<dc:identifier>"+uri+"<") {
					got = append(got, uri)
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) || len(h.held) != len(want) {
			rt.Fatalf("a harvester of %s has %q, which are %q, want %q", h.format, h.held, got, want)
		}
	}
	for _, r := range w.all("verb=ListIdentifiers&metadataPrefix=oai_dc") {
		for _, h := range r.headers() {
			if got := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + h.Identifier).Got; len(got) != 1 || got[0].Header.Status != h.Status || got[0].Header.Datestamp != h.Datestamp {
				rt.Fatalf("GetRecord of %s is %+v, in the list %+v", h.Identifier, got, h)
			}
		}
	}
	all := w.all("verb=ListRecords&metadataPrefix=oai_dc")
	if last := all[len(all)-1]; last.Token != nil && last.Token.Size != fmt.Sprint(len(ids(all))) {
		rt.Fatalf("completeListSize %s of a list of %d", last.Token.Size, len(ids(all)))
	}
}

// An index of an earlier version is repaired: claims that it does not record, records that
// it reported as deleted when they had moved, and identifiers of which it lost the owner.
func TestIndexOfEarlierVersion(t *testing.T) {
	t.Parallel()
	const index = "urn:x-lockstep:oai-pmh:" + listURI
	w := newWorld(t, nil)
	w.put("https://example.org/1", "", "1", recordLink("oai:example.org:1"))
	w.put("https://example.org/2", "", "2", recordLink("oai:example.org:1"))
	w.put("https://example.org/3", "", "3", recordLink("oai:example.org:3"))
	w.put("https://example.org/4", "", "4", recordLink("oai:example.org:3"))
	w.put("https://example.org/5", "", "5", recordLink("oai:example.org:5"))
	w.put("https://example.org/6", "", "6", recordLink("oai:example.org:6"))
	first := w.ask("verb=ListIdentifiers&metadataPrefix=oai_dc")
	wantIDs(t, []*response{first}, "oai:example.org:1", "https://example.org/2", "oai:example.org:3", "https://example.org/4", "oai:example.org:5", "oai:example.org:6")
	w.pass(time.Minute)
	// As the earlier version would have left it.
	var updates []catalog.Update
	for r, err := range w.catalog.Resources(t.Context(), index, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		u := catalog.Update{Record: catalog.Record{URI: r.URI, Length: -1, Token: r.Token}}
		u.Deleted = r.URI[0] == 'j' || r.URI == "ioai:example.org:5"
		u.Token = regexp.MustCompile(`,"(claim":"[^"]*"|version":\d+)`).ReplaceAllString(u.Token, "")
		if r.URI == "uhttps://example.org/3" { // deleted, and not replaced by 4
			u.Token = strings.Replace(u.Token, `}`, `},"deleted":true`, 1)
		}
		updates = append(updates, u)
	}
	updates = append(updates, catalog.Update{Record: catalog.Record{URI: "uhttps://example.org/0", Length: -1, Token: `{"at":{"t":1},"deleted":true,"id":"oai:example.org:6"}`}})
	w.apply(index, updates...)
	w.remove("https://example.org/3")
	w.restart()
	rs := w.all("verb=ListIdentifiers&metadataPrefix=oai_dc&from=" + first.ResponseDate)
	if got := ids(rs); !slices.Contains(got, "oai:example.org:3") || slices.Contains(got, "-oai:example.org:3") {
		t.Errorf("changes after the upgrade: %q", got)
	}
	w.pass(time.Minute)
	w.remove("https://example.org/1")
	for _, id := range []string{"oai:example.org:1", "oai:example.org:3", "oai:example.org:5", "oai:example.org:6"} {
		wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + id)}, id)
	}
}
