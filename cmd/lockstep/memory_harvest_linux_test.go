package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/oaipmh/oaipmhtest"
)

// TestMemoryHarvest mirrors a repository of many small records.
func TestMemoryHarvest(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes several times the memory")
	}
	t.Parallel()
	n := sized(10_000, 2000)
	srv := httptest.NewServer(oaipmhtest.New(oaipmhtest.Options{Records: n, PageSize: 500, Size: 500}))
	t.Cleanup(srv.Close)
	code, said, peak := peakOf(t, "oai-pmh:"+srv.URL+"/oai", filepath.Join(t.TempDir(), "mirror"))
	if code != 0 || !strings.Contains(said, "00 created") {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	t.Logf("peak memory %d MiB", peak>>20)
	if peak > 128<<20 {
		t.Errorf("peak memory %d MiB, want at most 128", peak>>20)
	}
}

const (
	hostileFeed = `<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:x-test:feed</id><title>t</title><author><name>a</name></author><updated>2026-05-02T12:00:00Z</updated>`
	hostileOAI  = `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-05-02T12:00:00Z</responseDate><request>http://HOST/</request>`
	identified  = hostileOAI + `<Identify><repositoryName>n</repositoryName><baseURL>http://HOST/</baseURL><protocolVersion>2.0</protocolVersion>` +
		`<adminEmail>a@example.org</adminEmail><earliestDatestamp>2020-01-01T00:00:00Z</earliestDatestamp><deletedRecord>persistent</deletedRecord>` +
		`<granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify></OAI-PMH>`
	anyRecord = `<record><header><identifier>oai:x:1</identifier><datestamp>2026-05-01T00:00:00Z</datestamp></header><metadata>`
)

// afterIdentify answers Identify as a repository does, and all else by then.
func afterIdentify(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		if r.FormValue("verb") == "Identify" {
			fmt.Fprint(w, strings.ReplaceAll(identified, "HOST", r.Host))
			return
		}
		then(w, r)
	}
}

// endlessFeed is a feed of one record for as many bytes as are asked for, and then
// breaks off.
func endlessFeed(size int) http.HandlerFunc {
	many := strings.Repeat(`<entry><id>urn:x-test:1</id><title/><updated>2026-05-01T00:00:00Z</updated><link href="/1"/></entry>`, 1000)
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, hostileFeed)
		for n := 0; err == nil && n < size; n += len(many) {
			_, err = io.WriteString(w, many)
		}
	}
}

// TestMemoryHostileHarvest harvests from feeds and repositories that send as much
// as they can.
func TestMemoryHostileHarvest(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes several times the memory")
	}
	t.Parallel()
	for _, tt := range []struct {
		name, source string
		handle       http.HandlerFunc
	}{
		{"endless entries", "atom-pmh:", endlessFeed(sized(1<<30, quickBytes))},
		{"endless id of a feed", "atom-pmh:", sendText(`<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:`, "for ever and ever ")},
		{"endless links", "atom-pmh:", sendMuch(24<<20, hostileFeed+"<entry>", `<link rel="alternate" href="http://HOST/a/very/long/address" type="text/plain"/>`)},
		{"endless text", "atom-pmh:", sendText(hostileFeed+"<entry><title>", "for ever and ever ")},
		{"endless depth", "atom-pmh:", sendText(hostileFeed, "<a>")},
		{"endless page", "oai-pmh:", afterIdentify(sendMuch(sized(24<<20, 4<<20), hostileOAI+"<ListRecords>", anyRecord+"<a/></metadata></record>"))},
		{"endless record", "oai-pmh:", afterIdentify(sendText(hostileOAI+"<ListRecords>"+anyRecord+"<a>", "<b>for ever and ever</b>"))},
		{"endless depth of a record", "oai-pmh:", afterIdentify(sendText(hostileOAI+"<ListRecords>"+anyRecord, "<b>"))},
		{"endless characters that are none", "oai-pmh:", afterIdentify(sendText(hostileOAI+"<ListRecords>"+anyRecord+"<a>", "\x01&#1;\xff& "))},
		{"endless header", "oai-pmh:", afterIdentify(sendText(hostileOAI+"<ListRecords><record><header>", "<setSpec>one</setSpec>"))},
		{"endless token", "oai-pmh:", afterIdentify(sendText(hostileOAI+"<ListRecords>"+anyRecord+"<a/></metadata></record><resumptionToken>", "for ever and ever "))},
		{"endless Identify", "oai-pmh:", sendText(hostileOAI+"<Identify>", "<description><a>for ever</a></description>")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.handle)
			t.Cleanup(srv.Close)
			start := time.Now()
			code, said, peak := peakOf(t, tt.source+srv.URL+"/x", filepath.Join(t.TempDir(), "mirror"), "--retries", "0")
			if code != 1 {
				t.Errorf("exit code %d, want 1\n%.2000s", code, said)
			}
			if strings.Contains(said, "goroutine ") {
				t.Errorf("a panic: %.2000s", said)
			}
			t.Logf("peak memory %d MiB, %v; %.300s", peak>>20, time.Since(start).Round(time.Millisecond), said)
			if peak > 256<<20 {
				t.Errorf("peak memory %d MiB, want at most 256", peak>>20)
			}
		})
	}
}
