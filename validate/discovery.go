package validate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// wellKnown checks that the Source Description is at the well-known URI
// (RS-SD-09): this one, or one that names the same Capability Lists.
func (w *walk) wellKnown(ctx context.Context, doc *document) error {
	origin, path := originOf(doc.uri)
	if origin == "" || path == wellKnownPath {
		return nil
	}
	p := w.visitor.Collector.In(doc.uri)
	there, err := w.look(ctx, origin+wellKnownPath)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		w.visitor.Collector.Report.Unseen++
	case visit.IsMissing(err):
		p.Warnf("RS-SD-09", "", "%s: %v", origin+wellKnownPath, err)
	case err != nil:
		return err
	case there.kind == finding.KindDescriptionIndex || there.kind == finding.KindDescription && sameEntries(there, doc):
	default:
		p.Warnf("RS-SD-09", "", "%s is another document", origin+wellKnownPath)
	}
	return nil
}

// sameEntries reports whether there names everything that doc names.
func sameEntries(there, doc *document) bool {
	named := make(map[string]bool, len(there.entries))
	for i := range there.entries {
		named[there.entries[i].Loc] = true
	}
	for i := range doc.entries {
		if !named[doc.entries[i].Loc] {
			return false
		}
	}
	return true
}

const (
	// maxRobots caps how much of a robots.txt is read.
	maxRobots = 1 << 20
	// maxOrigins caps the origins whose robots.txt is checked.
	maxOrigins = 20
)

// robots checks that an existing robots.txt names the Resource Lists of its
// origin, and no other documents (RS-DISC-07, RS-SMC-01).
func (w *walk) robots(ctx context.Context) error {
	var origins []string
	for _, uri := range w.resourceLists {
		if origin, _ := originOf(uri); origin != "" && !slices.Contains(origins, origin) && len(origins) < maxOrigins {
			origins = append(origins, origin)
		}
	}
	for _, origin := range origins {
		a, err := w.visitor.Ask(ctx, opener.Request{URI: origin + "/robots.txt"})
		if errors.Is(err, opener.ErrUnseen) || visit.IsMissing(err) {
			continue // none, or not readable: it is optional
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(a.Body, maxRobots))
		_ = a.Body.Close() // read as far as needed
		if err == nil {
			w.sitemaps(origin, text)
		}
	}
	return nil
}

// sitemaps checks the lines of a robots.txt that name Sitemaps. It need not name the
// list of a set that not everyone may read, whose answers are for one client.
func (w *walk) sitemaps(origin string, text []byte) {
	p := w.visitor.Collector.In(origin + "/robots.txt")
	named := make(map[string]bool)
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	lines.Buffer(nil, maxRobots+1)
	for n := 1; lines.Scan(); n++ {
		name, value, ok := strings.Cut(lines.Text(), ":")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "sitemap") {
			continue
		}
		value, _, _ = strings.Cut(value, " #")
		value = strings.TrimSpace(value)
		at := finding.Position(n, 1)
		if u, err := url.Parse(value); err != nil || !u.IsAbs() {
			p.Warnf("RS-DISC-07", at, "Sitemap: %s is no absolute URI", value)
			continue
		}
		named[value] = true
		if k, known := w.kinds[value]; known && k&(finding.KindResourceList|finding.KindResourceListIndex|finding.KindSitemap) == 0 {
			p.Warnf("RS-SMC-01", at, "names %s, a %s, which is nothing for search engines", value, k)
		}
	}
	for _, uri := range w.resourceLists {
		if own, _ := originOf(uri); own == origin && !named[uri] && !w.secret[uri] {
			p.Advisef("RS-DISC-07", "", "does not name the Resource List %s", uri)
		}
	}
}
