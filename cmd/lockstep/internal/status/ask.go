package status

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/certerror"
	"lockstep/internal/fetch"
)

// answerTime is how long a process may take to answer: it reads only memory.
const answerTime = 10 * time.Second

// maxAnswer caps an answer, which is held in memory: a line for each of thousands of
// upstreams.
const maxAnswer = 64 << 20

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// ErrNoProcess reports that no process listens at an address.
var ErrNoProcess = errors.New("no process runs there")

// errNotThere reports a page that a process does not have.
var errNotThere = errors.New("not found")

// A Service is a process that can be asked for its state.
type Service struct {
	name   string // in messages
	pages  string // URL of its pages
	token  string // admin token; may be empty
	client *http.Client
}

// AtAddress returns the process that listens for administration at an address, unix:PATH or
// HOST:PORT. Over TCP it is asked by https if a file with its certificate is given: only a
// process that has it gets the token.
func AtAddress(address, token, certFile string) (*Service, error) {
	address, secure := strings.CutPrefix(address, "https://") // as the process prints it
	if secure && certFile == "" {
		return nil, term.Usage(fmt.Errorf("--admin https://%s: which certificate the process has is not known", address), "name its file: --tls-cert FILE, or give --config FILE of the process")
	}
	if !strings.HasPrefix(address, unixPrefix) && !term.IsHostPort(address) || address == unixPrefix {
		return nil, term.Usage(fmt.Errorf("--admin %q: want unix:PATH or HOST:PORT", address), "as --admin unix:/run/lockstep/admin.sock, or --admin 127.0.0.1:9090")
	}
	scheme, host, dial := "http", address, (&net.Dialer{}).DialContext
	t := &http.Transport{DisableKeepAlives: true}
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		host, dial = "localhost", func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	} else if certFile != "" {
		var err error
		if t.TLSClientConfig, err = certificate.Pinned(certFile); err != nil {
			return nil, term.Usage(err, term.HintOf(err))
		}
		scheme = "https"
	}
	t.DialContext = dial
	return &Service{name: address, pages: scheme + "://" + host + "/" + admin.PagesDir, token: token, client: &http.Client{Transport: t}}, nil
}

// AtURL returns the process that serves at a base URL. roots are the certificates to trust;
// nil: those of the system.
func AtURL(address, token string, roots *x509.CertPool) (*Service, error) {
	u, err := url.Parse(address)
	if err != nil || !term.IsURL(address) {
		return nil, term.Usagef("%s is no URL", fetch.Printable(fetch.WithoutUser(address)))
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	name := u.String()
	return &Service{name: name, pages: strings.TrimSuffix(name, "/") + "/" + admin.PagesDir, token: token, client: &http.Client{
		Transport:     certerror.Transport(&http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this server
	}}, nil
}

// get returns the status and the content of a page.
func (s *Service) get(ctx context.Context, page string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.pages+page, nil)
	if err != nil {
		return 0, nil, term.Usage(fmt.Errorf("--admin %s: %w", s.name, err), "as --admin unix:PATH or --admin HOST:PORT")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, s.explain(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, s.explain(ctx, fmt.Errorf("read the answer: %w", err))
	}
	return resp.StatusCode, text, nil
}

// read reads a page in JSON into v. The error of a page that is not there is errNotThere.
func (s *Service) read(ctx context.Context, page string, v any) error {
	status, text, err := s.get(ctx, page)
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound:
		return errNotThere
	case status == http.StatusUnauthorized && s.token != "":
		return term.Usage(fmt.Errorf("the process at %s does not accept this admin token", s.name),
			"give the file of its own token with --admin-token-file: admin-token in its state directory, unless it was started with another one")
	case status == http.StatusUnauthorized:
		return term.Usage(fmt.Errorf("the process at %s wants its admin token", s.name), "give the file of the token with --admin-token-file")
	case status != http.StatusOK:
		return fmt.Errorf("the process at %s answers with status %d: %s", s.name, status, fetch.Printable(strings.TrimSpace(string(text[:min(len(text), 200)]))))
	}
	if err := json.Unmarshal(text, v); err != nil {
		return s.explain(ctx, fmt.Errorf("read the answer: %w", err))
	}
	return nil
}

// explain says why a process has not answered.
func (s *Service) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return term.WithHint(fmt.Errorf("%s: %w", s.name, ErrNoProcess),
			"start lockstep serve, follow or hub, or name the one that runs: its --state, --config, --admin, directory or URL")
	case errors.Is(err, os.ErrPermission):
		return term.WithHint(fmt.Errorf("%s: only the user who runs the process may ask it", s.name), "ask as that user, or as root")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the process at %s has not answered for %s: it is still starting, or overloaded", s.name, term.Elapsed(answerTime))
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the message has the address already
	}
	if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") { // of net/http, which has no type for it
		return term.WithHint(fmt.Errorf("ask the process at %s: it does not speak HTTPS there", s.name), "write the address with http://")
	}
	return fmt.Errorf("ask the process at %s: %w", s.name, err)
}
