package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// A guard lets in whom status pages, their API and metrics are for: who has a
// token, or, where there are no tokens, programs on this machine. They show
// hosts of others, and can end what others rely on.
type guard struct {
	tokens [][sha256.Size]byte // of those that are allowed; none: local ones only
	cross  *http.CrossOriginProtection
}

// newGuard returns a guard that knows the tokens in a file, one a line; "" is
// no file.
func newGuard(tokenFile string) (*guard, error) {
	g := &guard{cross: http.NewCrossOriginProtection()}
	if tokenFile == "" {
		return g, nil
	}
	tokens, err := readTokens(tokenFile)
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		g.tokens = append(g.tokens, sha256.Sum256([]byte(t)))
	}
	return g, nil
}

// warnOfProxy tells who has a proxy in front of what listens at addr, and has not
// said who may use what is for this machine only: a proxy is a program on it.
// Tokens are the flags by which tokens could be given, and the files that were.
func warnOfProxy(addr net.Addr, publicURL string, tokens map[string]string, io stdio) {
	u, err := url.Parse(publicURL)
	if tcp, ok := addr.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() || err != nil || isLoopback(u.Hostname()) {
		return
	}
	var missing []string
	for flag, file := range tokens {
		if file == "" {
			missing = append(missing, flag+" FILE")
		}
	}
	if len(missing) == 0 {
		return
	}
	slices.Sort(missing)
	io.errorf("warning: if the proxy in front of us sends no X-Forwarded-For, everybody looks like a program on this machine, and may see figures, manage subscriptions, and publish at the hub\nhint: let it send that (nginx: proxy_set_header X-Forwarded-For $remote_addr;), or say who may, by tokens: %s\n", strings.Join(missing, " "))
}

// maxTokenFile caps a token file: what is larger is some other file.
const maxTokenFile = 64 << 10

// readTokens reads a file of tokens, one a line.
func readTokens(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("read tokens: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, usagef("read tokens: %w", err)
	}
	if len(text) > maxTokenFile {
		return nil, usagef("read tokens from %s: larger than %s", path, size(maxTokenFile))
	}
	var tokens []string
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if t := strings.TrimSpace(s.Text()); t != "" {
			tokens = append(tokens, t)
		}
	}
	if len(tokens) == 0 {
		return nil, usagef("read tokens from %s: there is none in it", path)
	}
	return tokens, nil
}

// protect returns next for those whom g lets in. It must see requests as they
// came in.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Vary", "Authorization")
		status, err := g.check(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		if status == http.StatusUnauthorized {
			header["Www-Authenticate"] = []string{`Bearer realm="lockstep"`, `Basic realm="lockstep", charset="UTF-8"`}
		}
		http.Error(w, err.Error(), status)
	})
}

// check refuses who may not go on, and tells the status to say so with.
func (g *guard) check(r *http.Request) (int, error) {
	if len(g.tokens) == 0 {
		if err := local(r); err != nil {
			return http.StatusForbidden, err
		}
	} else if token, ok := tokenOf(r); !ok {
		return http.StatusUnauthorized, errors.New("want a token, as Authorization: Bearer TOKEN, or as a password")
	} else if !g.knows(token) {
		return http.StatusUnauthorized, errors.New("the token is not one of those that are allowed")
	}
	if err := g.cross.Check(r); err != nil {
		return http.StatusForbidden, errors.New("no pages of other hosts may ask for this")
	}
	return deliberate(r)
}

// tokenOf returns the token a request is sent with: as programs do, or as the
// password a browser has asked for.
func tokenOf(r *http.Request) (string, bool) {
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// knows reports whether a token is allowed. How long it takes says nothing of
// those that are.
func (g *guard) knows(token string) bool {
	sum, found := sha256.Sum256([]byte(token)), 0
	for i := range g.tokens {
		found |= subtle.ConstantTimeCompare(sum[:], g.tokens[i][:])
	}
	return found == 1
}

// deliberate refuses a request that changes something and is of the kind any
// page can make a browser send, whoever is looking at it: a POST of a form, or
// of plain text. Other methods, and JSON, a browser sends nowhere without having
// asked there first, and we never answer such a question.
func deliberate(r *http.Request) (int, error) {
	if r.Method != http.MethodPost {
		return http.StatusOK, nil
	}
	if typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || typ != "application/json" {
		return http.StatusUnsupportedMediaType, errors.New("want Content-Type: application/json")
	}
	return http.StatusOK, nil
}

// forwarded are the headers by which a proxy says for whom it asks.
func forwarded() []string {
	return []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}
}

// local refuses who is not on this machine: the connection must come from it,
// and not on behalf of somebody else, and the address must be its own, lest a
// page from elsewhere whose name suddenly means this machine gets in.
func local(r *http.Request) error {
	const only = "only programs on this machine may see this, unless there is a file of tokens (--admin-token-file)"
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return errors.New(only)
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); (err != nil || !addr.Unmap().IsLoopback()) && !strings.EqualFold(host, "localhost") {
		return fmt.Errorf("%s, by an address such as http://127.0.0.1/, not %.100q", only, r.Host)
	}
	for _, name := range forwarded() {
		if len(r.Header.Values(name)) > 0 {
			return fmt.Errorf("%s, and not through a proxy (%s)", only, name)
		}
	}
	return nil
}
