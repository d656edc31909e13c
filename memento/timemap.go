package memento

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/negotiate"
	"lockstep/internal/weblink"
)

// timeMap answers with a page of the TimeMap of a resource. rest is the format,
// unless it is negotiated, the instant of the first version of the page, unless
// it is the first page, and the URI.
func (h *Handler) timeMap(w http.ResponseWriter, r *http.Request, rest string) {
	m := timeMap{base: h.opts.Base}
	m.form, m.page, rest = cutPage(rest)
	if m.form == "" { // ME-TM-02
		w.Header().Set("Vary", "Accept")
	}
	m.json = m.form == formJSON || m.form == "" && prefersJSON(r.Header["Accept"])
	m.from, _ = parseStamp(strings.TrimSuffix(m.page, "/"))
	uri, a, err := h.known(r.Context(), rest, time.Time{})
	if err != nil {
		h.broken(w, r, uri, err)
		return
	}
	m.uri, m.around = uri, a
	if a.First.IsZero() { // ME-TM-07
		w.Header().Set("Link", h.links(uri, &a))
		h.fail(w, http.StatusNotFound, "of %s no version is known", escape(uri))
		return
	}
	body, err := h.page(r, &m)
	if err != nil {
		h.broken(w, r, uri, err)
		return
	}
	if body == nil {
		h.fail(w, http.StatusNotFound, "of %s there is no version from %s on", escape(uri), FormatDatetime(m.from))
		return
	}
	defer h.pages.release(body)
	header := w.Header()
	header.Set("Content-Type", LinkFormat)
	if m.json {
		header.Set("Content-Type", "application/json")
	}
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", `"`+hex.EncodeToString(body.sum[:16])+`"`)
	negotiate.ServeContent(w, r, time.Time{}, bytes.NewReader(body.text))
}

// The formats in the address of a TimeMap.
const (
	formJSON = "json/"
	formLink = "link/"
)

// cutPage splits the address of a page of a TimeMap, after its prefix: the format, unless
// it is negotiated, the instant of the first version, unless it is the first page, and
// the URI.
func cutPage(rest string) (form, page, uri string) {
	for _, f := range []string{formJSON, formLink} {
		if rest+"/" == f {
			return f, "", ""
		}
		if after, ok := strings.CutPrefix(rest, f); ok {
			form, rest = f, after
			break
		}
	}
	if text, uri, _ := strings.Cut(rest, "/"); text != "" {
		if _, ok := parseStamp(text); ok {
			return form, text + "/", uri
		}
	}
	return form, "", rest
}

// A timeMap is one page of a TimeMap.
type timeMap struct {
	base   Base
	form   string // as in its address
	page   string // likewise
	json   bool
	uri    string
	from   time.Time // only versions from then on; zero: all
	around Around

	list []Version
	next Version // the first of the next page
}

// list reads the versions of a page.
func (h *Handler) list(r *http.Request, m *timeMap) error {
	after := time.Time{}
	if !m.from.IsZero() {
		after = m.from.Add(-time.Microsecond)
	}
	size := 0
	for v, err := range h.store.List(r.Context(), m.uri, after) {
		if err != nil {
			return err
		}
		if v.Gone {
			continue
		}
		if len(m.list) >= h.opts.Page || size >= pageBytes {
			m.next = v
			return nil
		}
		m.list = append(m.list, v)
		size += 128 + len(m.uri)
	}
	return nil
}

// rels returns the relations of the version at i on this page (ME-TM-05).
func (m *timeMap) rels(i int) string {
	rel := "memento"
	if i == len(m.list)-1 && m.next.IsZero() {
		rel = "last " + rel
	}
	if i == 0 && !m.list[0].At.After(m.around.First.At) {
		rel = "first " + rel
	}
	return rel
}

// address returns the address of the page that begins with a version.
func (m *timeMap) address(form, page string) string {
	return string(m.base) + TimeMapPrefix + form + page + escape(m.uri)
}

// links returns the page in link format (ME-TM-01).
func (m *timeMap) links() []byte {
	b := make([]byte, 0, 1024+len(m.list)*(128+len(m.uri)))
	link := func(target string, params ...string) {
		if len(b) > 0 {
			b = append(b, ",\n"...)
		}
		b = weblink.AppendOne(b, target, params...)
	}
	first, last := m.list[0].At, m.list[len(m.list)-1].At
	link(escape(m.uri), "rel", "original")
	link(m.address(m.form, m.page), "rel", "self", "type", LinkFormat,
		"from", FormatDatetime(first), "until", FormatDatetime(last)) // ME-LK-03
	link(m.base.TimeGate(m.uri), "rel", "timegate")
	if !m.from.IsZero() {
		link(m.address(m.form, ""), "rel", "timemap", "type", LinkFormat, "from", FormatDatetime(m.around.First.At))
	}
	if !m.next.IsZero() { // ME-TM-04
		link(m.address(m.form, stamp(m.next.At)+"/"), "rel", "timemap", "type", LinkFormat,
			"from", FormatDatetime(m.next.At), "until", FormatDatetime(m.around.Last.At))
	}
	escaped := escape(m.uri)
	for i := range m.list {
		v := &m.list[i]
		link(m.base.memento(escaped, v.At), "rel", m.rels(i), "datetime", FormatDatetime(v.At))
	}
	return append(b, '\n')
}

// A jsonMap is a TimeMap in JSON, in the format of other services.
type jsonMap struct {
	Original string       `json:"original_uri"`
	TimeGate string       `json:"timegate_uri"`
	Self     string       `json:"self"`
	TimeMap  jsonForms    `json:"timemap_uri"`
	Index    []jsonPage   `json:"timemap_index,omitempty"`
	Mementos jsonVersions `json:"mementos"`
}

type jsonForms struct {
	Link string `json:"link_format"`
	JSON string `json:"json_format"`
}

type jsonPage struct {
	From  string `json:"from"`
	Until string `json:"until"`
	URI   string `json:"uri"`
}

type jsonVersions struct {
	First jsonVersion   `json:"first"`
	Last  jsonVersion   `json:"last"`
	List  []jsonVersion `json:"list"`
}

type jsonVersion struct {
	Datetime string `json:"datetime"`
	URI      string `json:"uri"`
}

// object returns the page in JSON.
func (m *timeMap) object() []byte {
	escaped := escape(m.uri)
	version := func(v *Version) jsonVersion {
		return jsonVersion{v.At.UTC().Format(time.RFC3339), m.base.memento(escaped, v.At)}
	}
	out := jsonMap{
		Original: escaped, TimeGate: m.base.TimeGate(m.uri),
		Self:    m.address(m.form, m.page),
		TimeMap: jsonForms{m.address("link/", ""), m.address("json/", "")},
		Mementos: jsonVersions{
			First: version(&m.around.First), Last: version(&m.around.Last), List: make([]jsonVersion, 0, len(m.list)),
		},
	}
	if !m.next.IsZero() {
		out.Index = append(out.Index, jsonPage{
			m.next.At.UTC().Format(time.RFC3339), m.around.Last.At.UTC().Format(time.RFC3339),
			m.address("json/", stamp(m.next.At)+"/"),
		})
	}
	for i := range m.list {
		out.Mementos.List = append(out.Mementos.List, version(&m.list[i]))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(out) // strings can always be encoded
	return b.Bytes()
}

// prefersJSON reports whether a client accepts JSON and does not prefer link
// format.
func prefersJSON(accept []string) bool {
	asJSON, asLinks, other := -1.0, -1.0, -1.0 // -1: not mentioned
	for _, value := range accept {
		for item := range strings.SplitSeq(value, ",") {
			typ, params, _ := strings.Cut(item, ";")
			q := weight(params)
			switch strings.ToLower(strings.Trim(typ, " \t")) {
			case "application/json":
				asJSON = max(asJSON, q)
			case LinkFormat:
				asLinks = max(asLinks, q)
			case "application/*", "*/*":
				other = max(other, q)
			}
		}
	}
	if asLinks < 0 {
		asLinks = other
	}
	return asJSON > 0 && asJSON >= asLinks
}

// weight returns the weight among the parameters of an item of Accept; 1 if
// there is none.
func weight(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.Trim(p, " \t"), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}
