package browser_test

import (
	"net/url"
	"testing"

	"lockstep/tools/browser"
)

func TestShots(t *testing.T) {
	address := browser.Run(t, `open (http://\S+)`, "explore", "http://127.0.0.1:18421/")
	u, _ := url.Parse(address)
	tab := browser.Open(t, u.Host)
	tab.Size(1280, 900, false)
	tab.Go(address)
	tab.Accessible()
	tab.Shot("overview")
	tab.Size(360, 740, true)
	tab.Fits()
	tab.Accessible()
	tab.Shot("overview-small-dark")
	tab.Size(3840, 2160, false)
	tab.Shot("overview-4k")
	tab.Size(1280, 900, false)
	base := "http://" + u.Host
	for name, path := range map[string]string{"list": "/list?list=1", "changes": "/list?list=3", "resource": "/resource?list=3&part=0&row=0", "preview": "/resource?list=1&part=0&row=0&show=preview", "hash": "/resource?list=1&part=0&row=0&show=hash", "xml": "/xml?list=1", "compare": "/compare", "start": "/start", "svg": "/resource?list=1&part=0&row=124&show=preview", "parts": "/parts?list=1", "wrong": "/nothing"} {
		tab.Go(base + path)
		tab.Accessible()
		tab.Shot(name)
		tab.Size(360, 740, true)
		tab.Fits()
		tab.Accessible()
		tab.Shot(name + "-small")
		tab.Size(1280, 900, false)
	}
	tab.Check()
}
