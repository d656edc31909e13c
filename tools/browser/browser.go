// Package browser drives Chromium for tests of our pages, and collects what a page must
// not do: execute what strangers wrote, send requests to other hosts, or fail in scripts.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// names are those of Chromium on different systems.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Find returns the path of Chromium, or skips the test.
func Find(t *testing.T) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("Chromium is not installed: the pages are not tested in a browser")
	return ""
}

// A Tab is a tab of a browser of its own. Its methods fail the test.
type Tab struct {
	t        *testing.T
	chromium func() context.Context // what its commands run in

	mu       sync.Mutex                   // guards what follows
	hosts    []string                     // to which requests may be sent
	foreign  map[network.RequestID]string // requests to others
	problems []string                     // dialogs and errors of scripts
}

// Open starts a browser. Requests may be sent to the hosts, each with its port.
func Open(t *testing.T, hosts ...string) *Tab {
	t.Helper()
	path := Find(t)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-component-update", true))
	actx, acancel := chromedp.NewExecAllocator(context.Background(), options...)
	tctx, timeout := context.WithTimeout(actx, 8*time.Minute)
	ctx, cancel := chromedp.NewContext(tctx)
	t.Cleanup(func() { cancel(); timeout(); acancel() })
	tab := &Tab{t: t, chromium: func() context.Context { return ctx }, hosts: hosts, foreign: map[network.RequestID]string{}}
	if err := chromedp.Listen(ctx, tab.note); err != nil {
		t.Fatal(err)
	}
	call(tab, network.Enable, network.EnableParams{})
	call(tab, page.Enable, page.EnableParams{})
	return tab
}

// call runs a command of the protocol.
func call[P, R any](tab *Tab, command cdp.Command[P, R], params P) R {
	tab.t.Helper()
	result, err := chromedp.Call(tab.chromium(), command, params)
	if err != nil {
		tab.t.Fatal(err)
	}
	return result
}

// note records an event.
func (tab *Tab) note(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err == nil && (u.Scheme == "http" || u.Scheme == "https") && !slices.Contains(tab.hosts, u.Host) {
			tab.foreign[e.RequestID] = e.Request.URL
		}
	case *network.EventLoadingFailed:
		if e.BlockedReason != "" {
			delete(tab.foreign, e.RequestID) // the policy of the page has prevented it
		}
	case *page.EventJavascriptDialogOpening:
		tab.problems = append(tab.problems, "a dialog: "+e.Message)
		go func() {
			_, _ = chromedp.Call(tab.chromium(), page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}) // otherwise the page waits
		}()
	case *runtime.EventExceptionThrown:
		tab.problems = append(tab.problems, "an exception: "+e.ExceptionDetails.Text)
	}
}

// Check fails the test if a page did what it must not do.
func (tab *Tab) Check() {
	tab.t.Helper()
	tab.mu.Lock()
	defer tab.mu.Unlock()
	if len(tab.foreign) > 0 {
		tab.t.Errorf("requests to other hosts: %q", slices.Collect(maps.Values(tab.foreign)))
	}
	if len(tab.problems) > 0 {
		tab.t.Errorf("problems: %q", tab.problems)
	}
	clear(tab.foreign)
	tab.problems = nil
}

// Go opens an address.
func (tab *Tab) Go(address string) {
	tab.t.Helper()
	if err := chromedp.Do(tab.chromium(), chromedp.Navigate(address)); err != nil {
		tab.t.Fatalf("open %s: %v", address, err)
	}
}

// Click waits for a visible link or button with exactly this text, and follows or presses
// the first one.
func (tab *Tab) Click(text string) {
	tab.t.Helper()
	tab.Wait(fmt.Sprintf(`(() => {
		for (const e of document.querySelectorAll("a, button, summary")) {
			if (e.textContent.trim().replace(/\s+/g, " ") === %q && e.offsetParent !== null) {
				e.click();
				return true;
			}
		}
		return false;
	})()`, text))
}

// Enter sets the value of the field that a selector finds, as a user does who types it.
func (tab *Tab) Enter(selector, text string) {
	tab.t.Helper()
	var found bool
	tab.Evaluate(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e?.focus(); e?.select(); return e !== null; })()`, selector), &found)
	if !found {
		tab.t.Fatalf("at %s: there is no %s", tab.Location(), selector)
	}
	tab.Press(text)
}

// Press sends keys to what has the focus.
func (tab *Tab) Press(keys string) {
	tab.t.Helper()
	if err := chromedp.Do(tab.chromium(), chromedp.KeyEvent(keys)); err != nil {
		tab.t.Fatal(err)
	}
}

// Text returns the text of the first element that a selector finds.
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	var text string
	tab.Evaluate(fmt.Sprintf(`document.querySelector(%q)?.textContent ?? ""`, selector), &text)
	return strings.TrimSpace(text)
}

// Wait waits until an expression is true.
func (tab *Tab) Wait(expression string) {
	tab.t.Helper()
	wait, cancel := context.WithTimeout(tab.chromium(), time.Minute)
	defer cancel()
	for {
		// While a page is being replaced there is no place to evaluate it.
		so, err := chromedp.Run(wait, chromedp.Evaluate[bool](`Boolean(`+expression+`)`))
		if err == nil && so {
			return
		}
		select {
		case <-wait.Done():
			tab.t.Fatalf("at %s: %s did not become true; the page shows: %.800s", tab.Location(), expression, tab.Text("main"))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Location returns the address of the page.
func (tab *Tab) Location() string {
	tab.t.Helper()
	at, err := chromedp.Run(tab.chromium(), chromedp.Location())
	if err != nil {
		tab.t.Fatal(err)
	}
	return at
}

// Evaluate evaluates an expression, or waits for the promise that it is.
func (tab *Tab) Evaluate(expression string, result any) {
	tab.t.Helper()
	text, err := chromedp.Run(tab.chromium(), chromedp.Evaluate[string](`(async () => JSON.stringify((await (`+expression+`)) ?? null))()`, chromedp.EvalAwaitPromise))
	if err == nil {
		err = json.Unmarshal([]byte(text), result)
	}
	if err != nil {
		tab.t.Fatalf("evaluate %.200s: %v", expression, err)
	}
}

// Size sets the size of the window in pixels, and whether the user prefers dark pages.
func (tab *Tab) Size(width, height int64, dark bool) {
	tab.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// Fits fails the test if the page is broader than the window.
func (tab *Tab) Fits() {
	tab.t.Helper()
	var wide []int
	tab.Evaluate(`[document.documentElement.scrollWidth, document.documentElement.clientWidth]`, &wide)
	if len(wide) == 2 && wide[0] > wide[1] {
		tab.t.Errorf("at %s: the page is %d pixels broad, the window %d", tab.Location(), wide[0], wide[1])
	}
}

// Accessible fails the test for each violation that axe-core finds. It is not checked
// without LOCKSTEP_TEST_AXE, the directory with the npm package axe-core.
func (tab *Tab) Accessible() {
	tab.t.Helper()
	dir := os.Getenv("LOCKSTEP_TEST_AXE")
	if dir == "" {
		tab.t.Log("LOCKSTEP_TEST_AXE is not set: accessibility is not checked with axe-core")
		return
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		tab.t.Fatal(err)
	}
	var has bool
	tab.Evaluate(`typeof axe !== "undefined"`, &has)
	if !has {
		if _, err := chromedp.Run(tab.chromium(), chromedp.Evaluate[bool](string(script)+"\n;true")); err != nil {
			tab.t.Fatal(err)
		}
	}
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	tab.Evaluate(`axe.run(document, {iframes: false}).then(r => r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary)})))`, &violations)
	for _, v := range violations {
		tab.t.Errorf("at %s: %s (%s): %q", tab.Location(), v.Help, v.ID, v.Nodes)
	}
}

// Shot stores a picture of the window in LOCKSTEP_SCREENSHOTS, if that is set and the
// picture has a name.
func (tab *Tab) Shot(name string) {
	tab.t.Helper()
	dir := os.Getenv("LOCKSTEP_SCREENSHOTS")
	if dir == "" || name == "" {
		return
	}
	picture, err := chromedp.Run(tab.chromium(), chromedp.CaptureScreenshot())
	if err == nil {
		picture, err = small(picture)
	}
	if err != nil {
		tab.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		tab.t.Fatal(err)
	}
}

// WithoutScripts keeps pages from executing scripts.
func (tab *Tab) WithoutScripts() {
	tab.t.Helper()
	call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}
