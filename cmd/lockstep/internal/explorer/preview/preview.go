// Package preview prepares the content of resources, which strangers wrote, for display:
// as text or as an image, never as a page, with headers that allow it nothing.
package preview

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/cmd/lockstep/internal/explorer/pretty"
)

const (
	// MaxText is how many bytes of a text are shown, and MaxImage how large an image
	// may be.
	MaxText  = 512 << 10
	MaxImage = 16 << 20
)

// A Kind says how content is shown.
type Kind string

// The kinds of previews.
const (
	None  Kind = ""      // it is not shown
	Text  Kind = "text"  // as plain text, XML and JSON with indentation
	Image Kind = "image" // by an img element, in which nothing is executed or loaded
)

// images are the types that are shown as images. SVG is one of them: in an img element it
// executes no script and loads nothing, and the policy of the answer forbids both.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/svg+xml"}

// KindOf returns how content of a stated media type, with this beginning, is shown, and
// as which type.
func KindOf(stated string, head []byte) (Kind, string) {
	base, _, err := mime.ParseMediaType(stated)
	if err != nil {
		base = ""
	}
	found, _, _ := mime.ParseMediaType(http.DetectContentType(head)) // it always returns a type
	switch {
	case base == "image/svg+xml":
		return Image, base
	case isImage(found):
		return Image, found
	case isImage(base) && base != "image/svg+xml" && found == "application/octet-stream":
		return Image, base // such as AVIF, which is not detected
	case isText(head):
		return Text, "text/plain; charset=utf-8"
	}
	return None, ""
}

func isImage(t string) bool {
	for _, i := range images {
		if t == i {
			return true
		}
	}
	return false
}

// isText reports whether content begins like a text in UTF-8.
func isText(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	for i := 0; i < len(head); {
		c, size := utf8.DecodeRune(head[i:])
		if c == utf8.RuneError && size == 1 {
			return len(head)-i < utf8.UTFMax // cut in the middle of a character
		}
		i += size
	}
	return true
}

// Secure sets the headers of all content of strangers: it is not a page of ours, may
// load and execute nothing, and is shown in our frames only.
func Secure(header http.Header) {
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// headSize is how many bytes decide about the kind.
const headSize = 3072

// Write answers a request with the preview of content. stated is its media type.
func Write(w http.ResponseWriter, content io.Reader, stated string) {
	header := w.Header()
	Secure(header)
	head := make([]byte, headSize)
	n, err := io.ReadFull(content, head)
	head = head[:n]
	if err != nil && n == 0 && err != io.EOF {
		http.Error(w, "the content cannot be read", http.StatusBadGateway)
		return
	}
	whole := io.MultiReader(bytes.NewReader(head), content)
	switch kind, shown := KindOf(stated, head); kind {
	case Image:
		body, err := io.ReadAll(io.LimitReader(whole, MaxImage+1))
		if err != nil || len(body) > MaxImage {
			http.Error(w, "the image cannot be read, or is larger than "+strconv.Itoa(MaxImage>>20)+" MiB", http.StatusBadGateway)
			return
		}
		header.Set("Content-Type", shown)
		_, _ = w.Write(body) // the client may have disconnected
	case Text:
		body, _ := io.ReadAll(io.LimitReader(whole, MaxText+1)) // what was read is shown
		header.Set("Content-Type", shown)
		_, _ = w.Write(textOf(body))
	default:
		header.Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "There is no preview: the content is neither a text in UTF-8 nor an image.\n")
	}
}

// textOf returns a text with indentation, if it is JSON or XML.
func textOf(body []byte) []byte {
	cut := len(body) > MaxText
	body = body[:min(len(body), MaxText)]
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	var out bytes.Buffer
	switch {
	case !cut && len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Indent(&out, trimmed, "", "  ") == nil:
	case !cut && bytes.HasPrefix(trimmed, []byte("<")) && !looksLikeHTML(trimmed):
		out.Reset()
		for line := range pretty.Lines(bytes.NewReader(body)) {
			out.WriteString(line.Indented())
			out.WriteByte('\n')
		}
	default:
		out.Reset()
		out.Write(body)
	}
	if out.Len() == 0 {
		out.Write(body)
	}
	if cut {
		out.WriteString("\n[only the beginning is shown]\n")
	}
	return bytes.ToValidUTF8(out.Bytes(), []byte("\uFFFD"))
}

func looksLikeHTML(text []byte) bool {
	head := strings.ToLower(string(text[:min(len(text), 200)]))
	return strings.Contains(head, "<!doctype html") || strings.Contains(head, "<html")
}
