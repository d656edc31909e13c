package upstreams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/term"
)

// A Report is what a process says of its upstreams.
type Report struct {
	Process
	Upstreams []Row `json:"upstreams"`
}

// answerTime is how long a process may take to answer: it reads only memory.
const answerTime = 10 * time.Second

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// errNoProcess reports that no process listens at an address.
var errNoProcess = errors.New("no process runs there")

// Ask asks the process that listens for administration at an address, unix:PATH or
// HOST:PORT. token may be empty. Over TCP it is asked by https if a file with its
// certificate is given: only a process that has it gets the token.
func Ask(ctx context.Context, address, token, certFile string) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	address, secure := strings.CutPrefix(address, "https://") // as the process prints it
	if secure && certFile == "" {
		return nil, term.Usage(fmt.Errorf("--admin https://%s: which certificate the process has is not known", address), "name its file: --tls-cert FILE, or give --config FILE of the process")
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+host+"/"+admin.PagesDir+Path, nil)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--admin %s: %w", address, err), "as --admin unix:PATH or --admin HOST:PORT")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return nil, explain(ctx, address, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, term.Usage(fmt.Errorf("the process at %s wants its admin token", address), "give the file of the token with --admin-token-file")
	case http.StatusNotFound:
		return nil, fmt.Errorf("the process at %s follows no Sources, or is of an earlier version", address)
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // for people
		return nil, fmt.Errorf("the process at %s answers with status %d: %s", address, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	var r Report
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		return nil, explain(ctx, address, fmt.Errorf("read the answer: %w", err))
	}
	return &r, nil
}

// explain says why a process has not answered.
func explain(ctx context.Context, address string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return term.WithHint(fmt.Errorf("%s: %w", address, errNoProcess),
			"start lockstep serve or follow, or name the one that runs: its --state, --config, --admin or directory")
	case errors.Is(err, os.ErrPermission):
		return term.WithHint(fmt.Errorf("%s: only the user who runs the process may ask it", address), "ask as that user, or as root")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the process at %s has not answered for %s: it is still starting, or overloaded", address, term.Elapsed(answerTime))
	}
	return fmt.Errorf("ask the process at %s: %w", address, err)
}
