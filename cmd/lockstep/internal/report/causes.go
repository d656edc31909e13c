package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/discover"
	"lockstep/internal/certerror"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/shown"
)

const (
	// maxCauses caps the groups that are kept: a Source that fails each
	// resource with a different message must not fill memory or the screen.
	maxCauses = 100
	// maxCausesSaid caps the lines that are printed.
	maxCausesSaid = 20
	// otherCauses is the cause of the group beyond them.
	otherCauses = "other causes"
)

// Causes sum up what failed or was refused: one line for each cause and host, with
// a count and an example. The zero value is ready to use.
type Causes struct {
	mu     sync.Mutex // guards what follows
	groups map[causeKey]*causeGroup
	later  map[causeKey]*causeGroup // of failures that are tried again at the end of the run
	denied int                      // a status 401 or 403 among them
	cert   *certerror.Error         // the first error about a certificate; nil: none
	lost   error                    // the first of a host that cannot be reached; nil: none
}

type causeKey struct{ head, host, cause string }

type causeGroup struct {
	causeKey
	count   int64
	order   int    // in which it was met
	example string // the whole sentence of the first
	uri     string // of the first
}

// Add records a failure of a resource or document.
func (c *Causes) Add(head string, e destination.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups, c.later = map[causeKey]*causeGroup{}, map[causeKey]*causeGroup{}
	}
	groups := c.groups
	if e.Later {
		groups = c.later
	}
	text, uri := shown.RedactedIn(ErrorText(e.Err), e.URI), shown.Redacted(e.URI)
	c.denied = cmp.Or(c.denied, DeniedStatus(e.Err))
	if cert, ok := errors.AsType[*certerror.Error](e.Err); ok && c.cert == nil {
		c.cert = cert
	}
	if c.lost == nil && isUnreachable(e.Err) {
		c.lost = e.Err
	}
	key := causeKey{head, hostOfURI(e.URI), causeOf(text, uri, filesOf(&e)...)}
	if groups[key] == nil && len(groups) >= maxCauses {
		key = causeKey{head: head, cause: otherCauses}
	}
	g := groups[key]
	if g == nil {
		g = &causeGroup{causeKey: key, order: len(groups), example: text, uri: uri}
		groups[key] = g
	}
	g.count++
}

// Retrying drops the failures that are tried again: they are reported again if
// they fail again.
func (c *Causes) Retrying() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.later)
}

// Take returns the lines, in the order in which the causes were met, and forgets
// what was summed up.
func (c *Causes) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	rest, restOf, atLeast := int64(0), 0, ""
	for _, groups := range []map[causeKey]*causeGroup{c.groups, c.later} { // the latter of a run that did not come to its end
		for _, g := range slices.SortedFunc(maps.Values(groups), func(a, b *causeGroup) int { return cmp.Compare(a.order, b.order) }) {
			if len(lines) >= maxCausesSaid {
				rest, restOf = rest+g.count, restOf+1
				if g.cause == otherCauses {
					atLeast = "at least "
				}
				continue
			}
			lines = append(lines, g.line())
		}
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("failed: %s more, of %s%s; --json lists all", term.Thousands(rest), atLeast, term.Count(restOf, "further cause")))
	}
	c.groups, c.later = nil, nil
	return lines
}

// Hint says which flag helps, if a server denied access, or its certificate is not accepted,
// and what may be wrong if the documents at source name a host that cannot be reached.
func (c *Causes) Hint(source string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	denied, cert, lost := c.denied, c.cert, c.lost
	c.denied, c.cert, c.lost = 0, nil, nil
	switch {
	case denied == 0 && cert != nil:
		return cert.Hint()
	case denied == 0 && lost != nil:
		return OtherHost(lost, "resources", source)
	}
	return DeniedHint(denied)
}

// isUnreachable reports whether a request failed because of the network.
func isUnreachable(err error) bool {
	_, request := errors.AsType[*fetch.Error](err)
	_, network := errors.AsType[net.Error](err)
	return request && network
}

// OtherHost says what may be wrong if a request for one of the documents or resources that
// source names failed because another host cannot be reached; else it returns "".
func OtherHost(err error, what, source string) string {
	failed, _ := errors.AsType[*fetch.Error](err)
	if !isUnreachable(err) {
		return ""
	}
	u, perr := url.Parse(failed.URI)
	if perr != nil || u.Host == "" || strings.EqualFold(hostOf(failed.URI), hostOf(source)) {
		return ""
	}
	base, _, found := strings.Cut(u.Path, "resourcesync/")
	if !found {
		base = "/"
	}
	return fetch.WithoutUser(source) + " names " + what + " below " + u.Scheme + "://" + u.Host + base +
		"; if they are not served there, its operator has to correct its base URL (--base-url of lockstep serve and publish)"
}

// hostOf returns the host of an address, which need not have a scheme, and its port unless that
// is the one of http or https.
func hostOf(address string) string {
	if _, after, ok := strings.Cut(fetch.WithoutUser(address), "://"); ok {
		address = after
	}
	host, _, _ := strings.Cut(address, "/")
	return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":443")
}

func (g *causeGroup) line() string {
	if g.count == 1 {
		return g.head + ": " + g.example
	}
	at := ""
	if g.host != "" {
		at = " at " + fetch.Printable(g.host)
	}
	return fmt.Sprintf("%s: %s%s: %s; for example %s", g.head, term.Count(g.count, "resource"), at, g.cause, g.uri)
}

func hostOfURI(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return u.Host
}

// What differs from one failure to the next of the same cause.
var (
	causeTries   = regexp.MustCompile(` \(\d+ tries\)`)
	causeAddress = regexp.MustCompile(`(read|write) (tcp|udp) \S+->`)
	causeDigest  = regexp.MustCompile(`[0-9A-Fa-f]{32,}|[A-Za-z0-9+/_-]{40,}=*`)
	causeTime    = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z?`)
	causeNumber  = regexp.MustCompile(`\b((?:after|length|got|want|has|of) )\d+(?: of \d+)?\b`)
)

// filesOf returns the names of files that the error of a failure may have.
func filesOf(e *destination.Event) []string {
	names := []string{e.Path}
	if taken, ok := errors.AsType[*filename.TakenError](e.Err); ok {
		names = append(names, taken.Path)
	}
	if path, ok := errors.AsType[*fs.PathError](e.Err); ok {
		names = append(names, path.Path)
	}
	if link, ok := errors.AsType[*os.LinkError](e.Err); ok {
		names = append(names, link.Old, link.New)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// causeOf returns the part of a sentence that failures of one cause share. names are those of files that it
// may have.
func causeOf(text, uri string, names ...string) string {
	if uri != "" {
		text = strings.TrimPrefix(text, "get "+uri+": ")
		text = strings.ReplaceAll(text, uri, "it")
	}
	for _, name := range names {
		text = strings.NewReplacer(strconv.Quote(name), "…", " "+name+":", " …:", " "+name+" ", " … ").Replace(text)
	}
	text = causeTries.ReplaceAllString(text, "")
	text = causeAddress.ReplaceAllString(text, "$1 $2 ")
	text = causeDigest.ReplaceAllString(text, "…")
	text = causeTime.ReplaceAllString(text, "…")
	return causeNumber.ReplaceAllString(text, "$1…")
}

// DeniedStatus returns the status by which a server denied access; 0 if none did.
func DeniedStatus(err error) int {
	if status, ok := fetch.StatusOf(err); ok && (status == http.StatusUnauthorized || status == http.StatusForbidden) {
		return status
	}
	if errors.Is(err, discover.ErrNoSource) { // it sums up in words what each guess was answered with
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			if strings.Contains(err.Error(), fmt.Sprintf("status %d %s", status, http.StatusText(status))) {
				return status
			}
		}
	}
	return 0
}

// DeniedHint says which flags help where a server denied access with a status.
func DeniedHint(status int) string {
	const flags = "--bearer-token-file FILE, --netrc, or --header 'Authorization: …'"
	switch status {
	case http.StatusUnauthorized:
		return "the server asks for credentials: give them with " + flags + "; they are sent to the Source's own host only"
	case http.StatusForbidden:
		return "the server refuses access: if it needs credentials, or others, give them with " + flags + "; else its operator has to allow it"
	}
	return ""
}
