package browser_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/tools/browser"
)

// service runs a Source with two sets and an admin listener, and returns its address, and that
// of the listener with the credential.
func service(t *testing.T) (source, admin string) {
	t.Helper()
	dir := t.TempDir()
	for n := range 130 {
		write(t, filepath.Join(dir, "files", "reports", fmt.Sprintf("report-%03d.txt", n)), strings.Repeat("text\n", n))
	}
	write(t, filepath.Join(dir, "files", `a "strange" <b>name&.txt`), "text")
	write(t, filepath.Join(dir, "maps", "map.txt"), "map")
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is probably free a moment later
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "lockstep.yaml"), `listen: 127.0.0.1:0
state: state
admin: `+listen+`
title: Reports & <maps>
description: What the office has written and drawn.
atom_pmh: true
oai_pmh: true
sets:
  - name: reports
    title: Reports <script>alert(1)</script>
    description: All reports of the office.
    from: dir:files
    versions: keep
  - name: maps
    from: dir:maps
    uri: https://maps.example.org/
`)
	source = browser.Run(t, dir, `^ready: (http\S+)`, "serve", "--config", "lockstep.yaml")
	token, err := os.ReadFile(filepath.Join(dir, "state", "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	return source, "http://admin:" + strings.TrimSpace(string(token)) + "@" + listen + "/-/"
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestHome goes through what a Source shows to anyone: its home page, its sets, their resources
// and changes.
func TestHome(t *testing.T) {
	browser.Find(t)
	source, _ := service(t)
	tab := browser.Open(t, hostOf(t, source))
	tab.Size(1280, 1600, false)
	tab.Go(source)
	tab.Wait(shows("What the office has written and drawn."))
	looksRight(tab, "home")
	tab.Click("Copy")
	tab.Wait(`[...document.querySelectorAll("[data-copy]")].some(b => /^(Copied|Selected)$/.test(b.textContent))`)
	tab.Click("Browse the resources and changes")
	tab.Wait(shows("2 sets"))
	looksRight(tab, "browse-sets")
	tab.Click("Reports <script>alert(1)</script>")
	tab.Wait(shows("All reports of the office. 131 resources."))
	looksRight(tab, "browse-set")
	tab.Click("reports/")
	tab.Wait(shows("report-099.txt"))
	tab.Click("Next")
	tab.Wait(shows("report-129.txt"))
	tab.Enter("#q", "REPORT-07")
	tab.Press("\r")
	tab.Wait(shows("10 found among 130 resources."))
	looksRight(tab, "")
	tab.Click("report-077.txt")
	tab.Wait(shows("Open the resource"))
	looksRight(tab, "browse-resource")
	tab.Click("Reports <script>alert(1)</script>")
	tab.Wait(shows("strange"))
	tab.Click("Changes")
	tab.Wait(shows("Changes are kept since"))
	looksRight(tab, "browse-changes")
	tab.WithoutScripts()
	tab.Go(source + "-/explore/set?name=maps")
	tab.Wait(shows("map.txt"))
	tab.Check()
}

// TestDashboard looks at all pages of a dashboard. They are renewed while they are open.
func TestDashboard(t *testing.T) {
	browser.Find(t)
	source, admin := service(t)
	tab := browser.Open(t, hostOf(t, admin))
	tab.Size(1280, 1600, false)
	tab.Go(admin)
	tab.Wait(shows("State: ok"))
	looksRight(tab, "dashboard")
	for range 25 {
		resp, err := http.Get(source + "reports/report-001.txt")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // only that there was a request matters
	}
	tab.Wait(shows("Last hour: 25 requests"))
	tab.Click("Requests as tables")
	tab.Wait(shows("Requests"))
	looksRight(tab, "dashboard-activity")
	tab.Click("Sets")
	tab.Wait(shows("maps"))
	tab.Click("Resources")
	tab.Wait(`document.querySelector("th[aria-sort]") !== null`)
	looksRight(tab, "dashboard-sets")
	tab.Click("Subscribers")
	tab.Wait(`document.querySelector("h1").textContent.includes("Subscribers")`)
	looksRight(tab, "")
	tab.Click("Errors")
	tab.Wait(`document.querySelector("h1").textContent.includes("Errors")`)
	looksRight(tab, "")
	tab.Check()
}
