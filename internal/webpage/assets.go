package webpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"path"
	"time"

	"lockstep/internal/negotiate"
)

//go:embed style.css
var styleCSS []byte

//go:embed page.js
var pageJS []byte

//go:embed icon.svg
var iconSVG []byte

// An asset is a file that pages load, under a name that changes with its content.
type asset struct {
	name      string
	mediaType string
	content   []byte
}

var (
	style  = newAsset("style", ".css", "text/css; charset=utf-8", styleCSS)
	script = newAsset("page", ".js", "text/javascript; charset=utf-8", pageJS)
	icon   = newAsset("icon", ".svg", "image/svg+xml", iconSVG)
)

func newAsset(name, suffix, mediaType string, content []byte) asset {
	sum := sha256.Sum256(content)
	return asset{name + "." + hex.EncodeToString(sum[:6]) + suffix, mediaType, content}
}

// source returns what allows a page to contain the asset.
func (a *asset) source() string {
	sum := sha256.Sum256(a.content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Assets serves the stylesheet, the script and the icon of all pages, by the last
// element of the path. They are public and never change under their names.
func Assets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		for _, a := range []asset{style, script, icon} {
			if path.Base(r.URL.Path) == a.name {
				header.Set("Content-Type", a.mediaType)
				header.Set("Cache-Control", "public, max-age=31536000, immutable")
				header.Set("Content-Security-Policy", "default-src 'none'")
				negotiate.ServeContent(w, r, time.Time{}, bytes.NewReader(a.content))
				return
			}
		}
		http.NotFound(w, r)
	})
}
