package readers

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sync/singleflight"

	"lockstep/internal/ratelimit"
	"lockstep/internal/reader"
)

// failureRate limits how often credentials from one address may be wrong.
var failureRate = ratelimit.Rate{Burst: 10, Per: 0.2}

const (
	// maxCompared is how many comparisons of passwords are remembered. When there are more,
	// they are made again.
	maxCompared = 10_000

	// checkPatience is how long a client waits for its turn to have its password checked.
	checkPatience = 5 * time.Second

	// checkRetry is when it may try again otherwise.
	checkRetry = 2 * time.Second

	// maxPasswords is how many hashes a password is compared with: a name may have another
	// one in each of several sets.
	maxPasswords = 8
)

// Logins remember which passwords were right, and from which addresses credentials were
// wrong. They are safe for concurrent use.
type Logins struct {
	proxies  []netip.Prefix
	log      *slog.Logger
	failures *ratelimit.Buckets[netip.Prefix]
	checks   singleflight.Group
	slots    chan struct{} // held while a password is checked: other requests need the processors, too
	secret   []byte        // keys what is remembered of passwords

	mu       sync.Mutex      // guards what follows
	compared map[string]bool // whether a password was right for a hash, by key
	broken   string          // the error of a file that was logged last
}

// NewLogins returns Logins. proxies are believed which client they ask for; that affects
// nothing but the limits and the log.
func NewLogins(proxies []netip.Prefix, log *slog.Logger) *Logins {
	l := &Logins{
		proxies: proxies, log: log, failures: ratelimit.NewBuckets[netip.Prefix](failureRate, time.Now),
		slots: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)), secret: make([]byte, sha256.Size), compared: make(map[string]bool),
	}
	_, _ = rand.Read(l.secret) // never fails
	return l
}

// A Gate knows the readers of the private sets of a Source. It is safe for concurrent use.
type Gate struct {
	logins *Logins
	sets   []guarded
}

type guarded struct {
	name string
	list *List
}

// NewGate returns a Gate without sets.
func NewGate(l *Logins) *Gate { return &Gate{logins: l} }

// Guard adds a private set.
func (g *Gate) Guard(set string, readers *List) { g.sets = append(g.sets, guarded{set, readers}) }

// Guards reports whether a set is private.
func (g *Gate) Guards(set string) bool {
	return slices.ContainsFunc(g.sets, func(s guarded) bool { return s.name == set })
}

// Any reports whether there are private sets.
func (g *Gate) Any() bool { return len(g.sets) > 0 }

// Mark returns r in a form that has its credential checked when something depends on it.
func (g *Gate) Mark(r *http.Request) *http.Request {
	if len(g.sets) == 0 || len(r.Header["Authorization"]) == 0 {
		return r
	}
	return r.WithContext(reader.With(r.Context(), func() reader.Grant { return g.check(r) }))
}

// A credential is what a request shows.
type credential struct {
	name   string // "": a bearer token
	secret string
}

// credentialOf returns the credential of a request.
func credentialOf(r *http.Request) (c credential, ok bool) {
	if len(r.Header["Authorization"]) != 1 {
		return c, false // two readers of the request could understand it differently
	}
	if name, password, ok := r.BasicAuth(); ok {
		return credential{name, password}, name != "" && password != ""
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	return credential{secret: token}, strings.EqualFold(scheme, "Bearer") && token != ""
}

var (
	errLimited = errors.New("too many credentials from this address were wrong")
	errBusy    = errors.New("other passwords are being checked")
)

// check returns what the credential of a request entitles to.
func (g *Gate) check(r *http.Request) reader.Grant {
	l := g.logins
	c, ok := credentialOf(r)
	if !ok {
		return reader.Grant{Status: http.StatusUnauthorized}
	}
	client := ratelimit.ClientOf(r, l.proxies)
	name, sets, passwords, err := g.compare(&c)
	l.report(err)
	var wait time.Duration
	var cerr error
	if len(sets) == 0 {
		sets, wait, cerr = l.open(client, &c, passwords)
	}
	switch {
	case len(sets) > 0:
		return reader.Grant{Name: cmp.Or(c.name, name), Sets: sets}
	case errors.Is(cerr, errLimited):
		return reader.Grant{Status: http.StatusTooManyRequests, After: wait}
	case err != nil || cerr != nil:
		return reader.Grant{Status: http.StatusServiceUnavailable, After: checkRetry}
	}
	if len(passwords) == 0 { // otherwise it was counted before they were checked
		wait = l.failures.Take(client, 1)
	}
	if wait > 0 {
		return reader.Grant{Status: http.StatusTooManyRequests, After: wait}
	}
	l.log.WarnContext(r.Context(), "a credential of a reader is wrong", slog.String("client", addressOf(client)))
	return reader.Grant{Status: http.StatusUnauthorized}
}

// addressOf writes the client of a request for people: an address, or the network of one.
func addressOf(client netip.Prefix) string {
	if client.IsSingleIP() {
		return client.Addr().String()
	}
	return client.String()
}

// A password is a hash that the password of a request may belong to.
type password struct {
	hash string
	sets []string // that it opens; none: it is compared so that unknown names take as long
}

// compare returns the sets that the credential opens as a token, with the name of its first
// line, and the hashes that it has to be compared with as a password. Its running time says
// nothing of tokens.
func (g *Gate) compare(c *credential) (name string, sets []string, passwords []password, err error) {
	sum := sha256.Sum256([]byte(c.secret))
	other := ""
	for _, set := range g.sets {
		lines, lerr := set.list.lines()
		err = errors.Join(err, lerr)
		found, at := 0, 0 // whether a token of the set is the credential, and the line of one
		for i := range lines {
			l := &lines[i]
			named := c.name == "" || l.name == c.name
			if l.token != nil {
				same := subtle.ConstantTimeCompare(sum[:], l.token) & truth(named)
				found, at = found|same, subtle.ConstantTimeSelect(same, i, at)
				continue
			}
			if other == "" {
				other = l.bcrypt
			}
			if c.name == "" || !named {
				continue
			}
			known := slices.IndexFunc(passwords, func(p password) bool { return p.hash == l.bcrypt })
			switch {
			case known >= 0:
				passwords[known].sets = append(passwords[known].sets, set.name)
			case len(passwords) < maxPasswords:
				passwords = append(passwords, password{l.bcrypt, []string{set.name}})
			}
		}
		if found == 1 {
			sets, name = append(sets, set.name), cmp.Or(name, lines[at].name)
		}
	}
	if c.name != "" && len(sets)+len(passwords) == 0 && other != "" {
		passwords = []password{{hash: other}}
	}
	return name, sets, passwords, err
}

func truth(so bool) int {
	if so {
		return 1
	}
	return 0
}

// open returns the sets that a password opens. A wrong one counts as a failure of the
// client, and so does each one while it is being checked.
func (l *Logins) open(client netip.Prefix, c *credential, passwords []password) (sets []string, wait time.Duration, err error) {
	var unknown []password
	for _, p := range passwords {
		switch right, known := l.remember(p.hash, c); {
		case right:
			sets = append(sets, p.sets...)
		case !known:
			unknown = append(unknown, p)
		}
	}
	if len(unknown) == 0 {
		return sets, 0, nil
	}
	// The same password comes with many requests at a time: it is checked, and counted, once.
	type outcome struct {
		sets []string
		wait time.Duration
	}
	result, err, _ := l.checks.Do(l.key("", c)+client.String(), func() (any, error) {
		if wait := l.failures.Take(client, 1); wait > 0 && len(sets) == 0 {
			return outcome{wait: wait}, errLimited
		}
		opened, err := l.compare(c, unknown, len(sets) > 0)
		if len(opened)+len(sets) > 0 || err != nil {
			l.failures.Give(client, 1)
		}
		return outcome{sets: opened}, err
	})
	o, _ := result.(outcome)
	return append(sets, o.sets...), o.wait, err
}

// compare compares a password with hashes, when it is its turn, and returns the sets that
// it opens. The results are remembered if it opens any, or is known to be right for others.
func (l *Logins) compare(c *credential, passwords []password, right bool) (sets []string, err error) {
	patience := time.NewTimer(checkPatience)
	defer patience.Stop()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-patience.C:
		return nil, errBusy
	}
	results := make(map[string]bool)
	for _, p := range passwords {
		ok := bcrypt.CompareHashAndPassword([]byte(p.hash), []byte(c.secret)) == nil && len(p.sets) > 0
		if results[l.key(p.hash, c)] = ok; ok {
			sets = append(sets, p.sets...)
		}
	}
	if len(sets) == 0 && !right {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.compared)+len(results) > maxCompared {
		clear(l.compared)
	}
	maps.Copy(l.compared, results)
	return sets, nil
}

// remember reports whether a password was right for a hash, if they were compared.
func (l *Logins) remember(hash string, c *credential) (right, known bool) {
	key := l.key(hash, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	right, known = l.compared[key]
	return right, known
}

// key identifies a password, which cannot be derived from it, and what it was compared with.
func (l *Logins) key(hash string, c *credential) string {
	m := hmac.New(sha256.New, l.secret)
	for _, part := range []string{hash, c.name, c.secret} {
		sum := sha256.Sum256([]byte(part))
		m.Write(sum[:])
	}
	return string(m.Sum(nil))
}

// report logs an error of the files of readers, once for each time it begins.
func (l *Logins) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case text == l.broken:
	case text == "":
		l.log.Info("the readers can be read again")
	default:
		l.log.Error("read the readers of private sets: those that cannot be read are refused", slog.String("err", text))
	}
	l.broken = text
}
