package intake

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// authorize refuses who may not use the API.
func (a *API) authorize(r *http.Request) error {
	if a.tokens == nil {
		return local(r)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return &problem{Title: http.StatusText(http.StatusUnauthorized), Status: http.StatusUnauthorized,
			Detail: "want a token, as Authorization: Bearer TOKEN", header: http.Header{"Www-Authenticate": {`Bearer realm="lockstep"`}}}
	}
	allowed, err := a.tokens.allow(token, a.o.Now())
	if err != nil {
		return err
	}
	if !allowed {
		return refuse(http.StatusForbidden, "the token is not one of those that are allowed")
	}
	return nil
}

// forwarded are the headers by which a proxy says for whom it asks.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// crossOrigin finds requests a browser makes for a page of somewhere else.
var crossOrigin = http.NewCrossOriginProtection()

// local refuses who is not on this machine, where that is all that is asked:
// the connection must come from it, and not on behalf of somebody else, and the
// address must be its own, lest a page from elsewhere whose name suddenly means
// this machine gets in.
func local(r *http.Request) error {
	const hint = "only clients on this machine may use the API, unless it is given a token file"
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return refuse(http.StatusForbidden, hint)
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); (err != nil || !addr.Unmap().IsLoopback()) && !strings.EqualFold(host, "localhost") {
		return refuse(http.StatusForbidden, "%s, by an address such as http://127.0.0.1/, not %.100q", hint, r.Host)
	}
	for _, name := range forwarded {
		if r.Header.Get(name) != "" {
			return refuse(http.StatusForbidden, "%s, and not through a proxy (%s)", hint, name)
		}
	}
	if err := crossOrigin.Check(r); err != nil {
		return refuse(http.StatusForbidden, "%s, and no pages of other hosts", hint)
	}
	return nil
}

// maxTokenFile caps a token file: what is larger is some other file.
const maxTokenFile = 64 << 10

// errTokens is what all that is wrong with a token file has in common.
var errTokens = errors.New("token file")

// apiTokens are the tokens of a file, which is read again when it changes.
type apiTokens struct {
	path string
	last atomic.Pointer[tokenFile]
}

// A tokenFile is a state of the file.
type tokenFile struct {
	info os.FileInfo
	read time.Time
	sums [][sha256.Size]byte
}

// racyToken is how young a file must be for another change not to show in its
// times.
const racyToken = 2 * time.Second

// load returns the tokens as they are now.
func (t *apiTokens) load(now time.Time) (*tokenFile, error) {
	info, err := os.Stat(t.path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTokens, err)
	}
	last := t.last.Load()
	if last != nil && os.SameFile(last.info, info) && last.info.Size() == info.Size() &&
		last.info.ModTime().Equal(info.ModTime()) && last.read.Sub(info.ModTime()) > racyToken {
		return last, nil
	}
	f, err := os.Open(t.path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTokens, err)
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTokens, err)
	}
	if len(text) > maxTokenFile {
		return nil, fmt.Errorf("%w %s: is larger than %d bytes", errTokens, t.path, maxTokenFile)
	}
	fresh := &tokenFile{info: info, read: now}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			fresh.sums = append(fresh.sums, sha256.Sum256(line))
		}
	}
	if len(fresh.sums) == 0 {
		return nil, fmt.Errorf("%w %s: has no token in it", errTokens, t.path)
	}
	t.last.Store(fresh)
	return fresh, nil
}

// allow reports whether token is in the file. How long it takes says nothing
// of the tokens there.
func (t *apiTokens) allow(token string, now time.Time) (bool, error) {
	f, err := t.load(now)
	if err != nil {
		return false, err
	}
	sum, found := sha256.Sum256([]byte(token)), 0
	for i := range f.sums {
		found |= subtle.ConstantTimeCompare(sum[:], f.sums[i][:])
	}
	return found == 1, nil
}
