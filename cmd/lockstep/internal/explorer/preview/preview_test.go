package preview_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/explorer/preview"
)

// TestKind determines by the bytes how content is shown: a wrong media type makes nothing
// of it a page.
func TestKind(t *testing.T) {
	t.Parallel()
	const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	for name, c := range map[string]struct {
		stated, content string
		kind            preview.Kind
		shown           string
	}{
		"PNG":               {"image/png", png, preview.Image, "image/png"},
		"PNG as HTML":       {"text/html", png, preview.Image, "image/png"},
		"HTML as PNG":       {"image/png", "<html><script>", preview.Text, "text/plain; charset=utf-8"},
		"HTML":              {"text/html", "<html>", preview.Text, "text/plain; charset=utf-8"},
		"XHTML":             {"application/xhtml+xml", "<?xml version='1.0'?><html>", preview.Text, "text/plain; charset=utf-8"},
		"script":            {"text/javascript", "alert(1)", preview.Text, "text/plain; charset=utf-8"},
		"SVG":               {"image/svg+xml; charset=utf-8", "<svg>", preview.Image, "image/svg+xml"},
		"SVG without type":  {"", "<svg xmlns='http://www.w3.org/2000/svg'>", preview.Text, "text/plain; charset=utf-8"},
		"AVIF":              {"image/avif", "\x00\x00\x00 ftypavif\xff", preview.Image, "image/avif"},
		"PDF":               {"application/pdf", "%PDF-1.7\n\x80\x81\xff\xfe", preview.None, ""},
		"binary":            {"text/plain", "a\x00b", preview.None, ""},
		"invalid type":      {"image/png\"><script>", "text", preview.Text, "text/plain; charset=utf-8"},
		"cut character":     {"text/plain", "text \xe2\x82", preview.Text, "text/plain; charset=utf-8"},
		"unsupported image": {"image/x-evil", "\xff\xfe\x00", preview.None, ""},
	} {
		if kind, shown := preview.KindOf(c.stated, []byte(c.content)); kind != c.kind || shown != c.shown {
			t.Errorf("%s: %q as %q, want %q as %q", name, kind, shown, c.kind, c.shown)
		}
	}
}

// TestWrite shows texts with indentation, and large ones in part.
func TestWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, want string }{
		"JSON":    {`{"a":[1]}`, "{\n  \"a\": [\n    1\n  ]\n}"},
		"no JSON": {`{"a":`, `{"a":`},
		"XML":     {"<a><b>c</b></a>", "<a>\n  <b>c</b>\n</a>\n"},
		"HTML":    {"<!DOCTYPE html><p>x", "<!DOCTYPE html><p>x"},
		"empty":   {"", ""},
		"PDF":     {"%PDF\x00", "There is no preview: the content is neither a text in UTF-8 nor an image.\n"},
		"large":   {strings.Repeat("x", preview.MaxText+1), strings.Repeat("x", preview.MaxText) + "\n[only the beginning is shown]\n"},
	} {
		w := httptest.NewRecorder()
		preview.Write(w, strings.NewReader(c.content), "")
		if got := w.Body.String(); got != c.want {
			t.Errorf("%s: %.100q, want %.100q", name, got, c.want)
		}
		if !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "sandbox;") {
			t.Errorf("%s: no sandbox", name)
		}
	}
}
