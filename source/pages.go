package source

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/atompmh"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// pagePolicy allows our pages their own style and nothing else: no script, no
// frame, no request to anywhere.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// A page is what page.html shows.
type page struct {
	Mark        template.HTML // that we wrote it
	Title       string
	Message     string // what went wrong; empty on the home page
	Home        string
	Description string // URI of the Source Description
	Style       template.CSS
	Sets        []pageSet
	More        int // sets that are not shown
}

// maxPageSets is how many sets a page shows, and how many its header names:
// many more, and nobody reads it.
const maxPageSets = 50

// A pageSet is a set as a page tells of it.
type pageSet struct {
	Name           string
	CapabilityList string
	Covers         bool // the page itself is where the set's resources are (RS-DISC-04)
	ResourceList   string
	ChangeList     string
	ResourceDump   string // empty when there is none, or that is not known; likewise
	ChangeDump     string
	Archives       []pageArchive // likewise
	Feed           string        // empty where there is none
	OAI            string        // likewise
	TimeGate       string        // what leads to a version of a resource with its URI behind; empty where none are kept
	TimeMap        string        // likewise, to the list of all
	About          string
	Resources      string // how many, in words; empty when not known
	At             string
	Changed        string
}

// A pageArchive is an archive as a page tells of it.
type pageArchive struct {
	URI string
	Of  string // what it names
}

// archivesOf are the documents that archives name, as a page calls them.
var archivesOf = map[resourcesync.Capability]string{
	resourcesync.ResourceList: "Resource Lists",
	resourcesync.ResourceDump: "Resource Dumps",
	resourcesync.ChangeList:   "Change Lists",
	resourcesync.ChangeDump:   "Change Dumps",
}

// A summary is what the last Publish found, by set.
type summary map[string]pageSet

// summarize keeps for the home page what was published. The caller holds
// publishing.
func (s *Source) summarize() {
	all := make(summary)
	for name, st := range s.lists.Summaries() {
		p := pageSet{Resources: strconv.FormatInt(st.Resources, 10) + " resources", At: st.At.Format(time.RFC3339)}
		if st.Resources == 1 {
			p.Resources = "1 resource"
		}
		if !st.Changed.IsZero() {
			p.Changed = st.Changed.Format(time.RFC3339)
		}
		all[name] = p
	}
	s.page.Store(&all)
}

// home serves the page at the base URL, for those who come with a browser.
func (h *handler) home(w http.ResponseWriter, r *http.Request) {
	body, err := h.render("A ResourceSync Source", "", names.Home)
	if err != nil {
		h.refuse(w, r, "home page", err)
		return
	}
	header := w.Header()
	h.pageHeader(header, names.Home)
	sum := sha256.Sum256(body)
	header.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	header["Cache-Control"] = revalidate
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// fail answers with an error status and a page that says what there is, and
// more links in its header.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int, links ...string) {
	message := map[int]string{
		http.StatusNotFound:            "There is nothing at this address.",
		http.StatusForbidden:           "What is at this address cannot be read.",
		http.StatusMethodNotAllowed:    "Only GET and HEAD are possible here.",
		http.StatusInternalServerError: "This cannot be answered just now.",
	}[status]
	rel, ok := h.docs.Base.Locate(sentPath(r.URL))
	if !ok {
		rel = outside
	}
	body, err := h.render(http.StatusText(status), message, rel)
	if err != nil {
		body = []byte(message) // unreachable: the template is executed by tests
	}
	header := w.Header()
	h.pageHeader(header, rel)
	header["Link"] = append(header["Link"], links...)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone: nobody to tell
	}
}

// outside stands for addresses that are not below the base URL: no set covers
// them.
const outside = "/"

// pageHeader states the links of the page at rel: to the Capability Lists of the
// sets that cover it (RS-DISC-04), and to feeds.
func (h *handler) pageHeader(header http.Header, rel string) {
	var links []string
	for _, set := range h.opts.Sets[:min(len(h.opts.Sets), maxPageSets)] {
		if rel != outside && covers(&set, rel) {
			links = append(links, "<"+h.docs.CapabilityList(set.Name)+`>; rel="resourcesync"`)
		}
	}
	for _, set := range h.opts.Sets[:min(len(h.opts.Sets), maxPageSets)] {
		if set.Atom != nil {
			links = append(links, "<"+h.docs.Base.URI(names.Feed(set.Name))+`>; rel="alternate"; type="`+atompmh.MediaType+`"`)
		}
	}
	header["Link"] = links
	header.Set("Content-Type", "text/html; charset=utf-8")
	securePage(header)
}

// securePage allows a page what it needs.
func securePage(header http.Header) {
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
}

func (h *handler) render(title, message, rel string) ([]byte, error) {
	return h.Source.render(h.opts.Sets, h.page.Load(), title, message, rel)
}

// render returns the page at rel about the sets, with what is known of them.
func (s *Source) render(sets []Set, known *summary, title, message, rel string) ([]byte, error) {
	p := page{
		Mark:        hintMark,
		Title:       title,
		Message:     message,
		Home:        s.docs.Base.URI(names.Home),
		Description: s.docs.Base.URI(names.WellKnown),
		Style:       template.CSS(pageCSS),
	}
	shown := sets[:min(len(sets), maxPageSets)]
	p.More = len(sets) - len(shown)
	for _, set := range shown {
		var ps pageSet
		if known != nil {
			ps = (*known)[set.Name]
			ps.ResourceDump = s.offers(set.Name, resourcesync.ResourceDump)
			ps.ChangeDump = s.offers(set.Name, resourcesync.ChangeDump)
			for _, c := range names.Archivable {
				if uri := s.offers(set.Name, names.ArchiveOf(c)); uri != "" {
					ps.Archives = append(ps.Archives, pageArchive{uri, archivesOf[c]})
				}
			}
		}
		if set.Versions != nil && !set.Versions.Ending {
			ps.TimeGate, ps.TimeMap = s.docs.Base.URI(memento.TimeGatePrefix), s.docs.Base.URI(memento.TimeMapPrefix)
		}
		if set.Atom != nil {
			ps.Feed = s.docs.Base.URI(names.Feed(set.Name))
		}
		ps.Name, ps.About, ps.OAI = set.Name, set.Description, set.OAI
		ps.CapabilityList, ps.Covers = s.docs.CapabilityList(set.Name), rel != outside && covers(&set, rel)
		ps.ResourceList = s.docs.Base.URI(names.ResourceList(set.Name))
		ps.ChangeList = s.docs.Base.URI(names.ChangeList(set.Name))
		p.Sets = append(p.Sets, ps)
	}
	var b strings.Builder
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}
