package discover_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/discover"
)

const (
	feed = `<?xml version="1.0"?><!-- x --><a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:id>urn:x:1</a:id>
<a:title type="text"> Map
records&#x9b;</a:title><a:entry><a:title>no</a:title><a:link type="text/plain" href="/7"/></a:entry></a:feed>`
	identify = `<?xml version="1.0"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2024-05-01T02:00:00Z</responseDate>
<request verb="Identify">HOST/oai</request><Identify><repositoryName>Library</repositoryName></Identify></OAI-PMH>`
	badVerb = `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><request>HOST/oai</request><error code="badVerb">no</error></OAI-PMH>`
)

// blog is a feed of articles; one of its entries has the form of Atom-PMH.
const blog = `<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:x:1</id><title>Blog</title>
<entry><id>urn:x:2</id><link href="/2"/><content type="html">one</content></entry><entry><id>urn:x:3</id><link href="/3"/><content> </content></entry>
<entry><id>urn:x:4</id><link href="/4"/><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">two</div></content></entry></feed>`

// A feed of articles is harvested only if its own address is given, and
// reported as such.
func TestFindArticles(t *testing.T) {
	t.Parallel()
	srv := usual().with(site{"/blog": blog}).serve(t)
	found, err := discover.Find(t.Context(), srv.client, srv.fill("HOST/blog"))
	if err != nil || found.Foreign == nil || !strings.Contains(way(found), "its entries have content") || srv.requests.Load() != 1 {
		t.Errorf("%+v, %v, %d requests", found, err, srv.requests.Load())
	}
}

func packed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFindForeign(t *testing.T) {
	t.Parallel()
	bare := site{"/.well-known/resourcesync": ""}
	linked := `<html><link rel="alternate" type="text/html" href="/de"><link rel=alternate type="application/atom+xml;charset=utf-8" href="/f.atom#x"></html>`
	tests := []struct {
		name, address string
		changes       site // to the usual site
		want          string
		requests      int64
	}{
		{"feed", "HOST/f.atom", site{"/f.atom": feed}, "atom-pmh HOST/f.atom Map records\\u009b", 1},
		{"feed at the root", "HOST/#top", site{"/": feed}, "atom-pmh HOST/ Map records\\u009b", 1},
		{"feed after a byte order mark", "NAME/f", site{"/f": "\ufeff" + feed}, "atom-pmh HOST/f Map records\\u009b", 1},
		{"gzip", "HOST/f.gz", site{"/f.gz": packed(t, feed)}, "atom-pmh HOST/f.gz Map records\\u009b", 1},
		{"redirected", "HOST/g", site{"/g": "-> HOST/f", "/f": feed}, "atom-pmh HOST/g Map records\\u009b", 2},
		{"cut off", "HOST/f", site{"/f": feed[:120]}, "atom-pmh HOST/f ", 1},
		{"repository", "HOST/oai?verb=Identify", site{"/oai": identify}, "oai-pmh HOST/oai Library", 1},
		{"repository and what of it", "HOST/oai?verb=ListRecords&a=b%26c&metadataPrefix=marc%31&set=x:y&from=2024-01-01&until=2024-02-01#x", site{"/oai": badVerb},
			"oai-pmh HOST/oai?a=b%26c&metadataPrefix=marc%31&set=x:y ", 1},
		{"error document", "HOST/oai", site{"/oai": badVerb}, "oai-pmh HOST/oai ", 1},
		{"repository behind a warning", "HOST/w", site{"/w": "<br />\n<b>Warning</b>: x & y<br />\n" + identify}, "oai-pmh HOST/w Library", 1},
		{"repository without namespace", "HOST/r", site{"/r": "<OAI-PMH><error code='badVerb'/></OAI-PMH>"}, "oai-pmh HOST/r ", 1},
		{"link in a page", "HOST/p", bare.and(site{"/p": linked, "/f.atom": feed}), "atom-pmh HOST/f.atom Map records\\u009b", 7},
		{"link in a header", "HOST/p", bare.and(site{"/p": "Link: </f.atom>; rel=alternate; type=\"application/atom+xml\"\n\nx", "/f.atom": feed}), "atom-pmh HOST/f.atom Map records\\u009b", 7},
		{"named feed", "atom-pmh:HOST/none#x", nil, "atom-pmh HOST/none ", 0},
		{"named feed without a scheme", "Atom-PMH:NAME/none", nil, "atom-pmh HOST/none ", 1},
		{"named repository", "oai-pmh:HOST/none?verb=Identify&metadataPrefix=x", nil, "oai-pmh HOST/none?metadataPrefix=x ", 0},
		{"named repository without a scheme", "oai-pmh:NAME/none?set=a", nil, "oai-pmh HOST/none?set=a ", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := usual().with(tt.changes).serve(t)
			found, err := discover.Find(t.Context(), srv.client, srv.fill(tt.address))
			if err != nil {
				t.Fatal(err)
			}
			f := found.Foreign
			if f == nil {
				t.Fatalf("Find(%s) = %s, way: %s", tt.address, summary(found.Sets), way(found))
			}
			if got := srv.strip(f.Kind + " " + f.URI + " " + f.Title); got != tt.want || srv.requests.Load() != tt.requests || found.Origin != srv.URL {
				t.Errorf("Find(%s) = %q at %s by %d requests, want %q by %d\nway: %s", tt.address, got, found.Origin, srv.requests.Load(), tt.want, tt.requests, srv.strip(way(found)))
			}
			text, err := json.Marshal(found)
			var again discover.Found
			if err != nil || json.Unmarshal(text, &again) != nil || again.Foreign == nil || *again.Foreign != *f {
				t.Errorf("kept as %s, %v", text, err)
			}
			before := srv.requests.Load()
			now, changed, err := discover.Refresh(t.Context(), srv.client, &again)
			if err != nil || changed || now.Foreign == nil || *now.Foreign != *f || srv.requests.Load() != before {
				t.Errorf("Refresh = %+v, %v, %v by %d requests, want it left alone", now, changed, err, srv.requests.Load()-before)
			}
		})
	}
}

// and returns the union of both.
func (s site) and(more site) site {
	both := site{}
	for _, m := range []site{s, more} {
		for path, text := range m {
			both[path] = text
		}
	}
	return both
}

// A page of a Source leads to the Source, even if it links to feeds.
func TestFindSourceBeforeFeed(t *testing.T) {
	t.Parallel()
	srv := usual().with(site{"/p": `<html><link rel=alternate type="application/atom+xml" href="/f">`, "/f": feed}).serve(t)
	found, err := discover.Find(t.Context(), srv.client, srv.fill("HOST/p"))
	if err != nil || found.Foreign != nil || summary(found.Sets) != both {
		t.Errorf("Find = %+v, %v, want the Source", found, err)
	}
}

// Repositories answer an address without arguments in many different forms.
func TestFindRepositoryByIdentify(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"status 400", "status 404", "status 422", "<html>Welcome</html>", "text"} {
		srv := usual().with(site{"/.well-known/resourcesync": "", "/x/oai2.php": answer, "/x/oai2.php?verb=Identify": identify}).serve(t)
		srv.byQuery = true
		found, err := discover.Find(t.Context(), srv.client, srv.fill("HOST/x/oai2.php?set=a"))
		if err != nil || found.Foreign == nil || srv.strip(found.Foreign.URI) != "HOST/x/oai2.php?set=a" || srv.requests.Load() != 2 {
			t.Errorf("where %q is answered: %+v, %v, by %d requests", answer, found, err, srv.requests.Load())
		}
	}
	srv := usual().with(site{"/.well-known/resourcesync": "", "/x": "<html>Welcome</html>", "/x?verb=Identify": identify}).serve(t)
	srv.byQuery = true
	found, err := discover.Find(t.Context(), srv.client, srv.fill("HOST/x"))
	if err != nil || found.Foreign == nil || srv.strip(found.Foreign.URI) != "HOST/x" {
		t.Errorf("as the last resort: %+v, %v", found, err)
	}
}

func TestFindForeignFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "feed.xml")
	if err := os.WriteFile(file, []byte(feed), 0o600); err != nil {
		t.Fatal(err)
	}
	entry := `<entry xmlns="http://www.w3.org/2005/Atom"><id>urn:x</id></entry>`
	tests := []struct {
		address string
		changes site
		want    string
	}{
		{file, nil, "an Atom feed in a file; it is harvested from its address on the web"},
		{"atom-pmh:" + file, nil, "a file; it is harvested from its address on the web"},
		{"HOST/e", site{"/e": entry}, "read HOST/e: an Atom entry, not a feed"},
		{"HOST/e", site{"/.well-known/resourcesync": "", "/e": `<feed><title>x</title></feed>`}, "no ResourceSync document"},
		{"HOST/e", site{"/.well-known/resourcesync": "", "/e": `<!DOCTYPE feed [<!ENTITY a "b">]>` + feed}, "HOST/e"},
		{"HOST/e", site{"/.well-known/resourcesync": "", "/e": `<rss version="2.0"><channel/></rss>`}, "HOST/e: an RSS feed, which lists neither"},
		{"HOST/e", site{"/.well-known/resourcesync": "", "/e": `<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"/>`}, "HOST/e: an RSS feed"},
		{"HOST/p", site{"/.well-known/resourcesync": "", "/p": `<html><link rel=alternate type="application/atom+xml" href="/blog">`, "/blog": blog}, "HOST/blog: a feed of news"},
		{"HOST/p", site{"/.well-known/resourcesync": "", "/p": `<html><link rel=alternate type="application/atom+xml" href="/n">`, "/n": `<feed xmlns="http://www.w3.org/2005/Atom"><entry><link rel="alternate" href="/1"/></entry></feed>`}, "HOST/n: a feed of news"},
		{"oai-pmh:", nil, "needs a URL"},
		{"atom-pmh:gopher://x/", nil, "scheme gopher"},
	}
	for _, tt := range tests {
		srv := usual().with(tt.changes).serve(t)
		c := srv.client
		if tt.address == file {
			c = newClient(t, "") // of a user, who may name files
		}
		found, err := discover.Find(t.Context(), c, srv.fill(tt.address))
		if err == nil || !strings.Contains(srv.strip(err.Error()), tt.want) {
			t.Errorf("Find(%s) = %+v, %v, want %q", tt.address, found, err, tt.want)
		}
	}
}
