// Package validatetest helps tests to check that their published documents are
// valid.
package validatetest

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

// settle is how long a Source in a test may take to announce a change.
const settle = 100 * time.Millisecond

// NoFindings checks the Source one of whose documents is at address, with all
// its packages and resources, and fails t for each finding, warnings included.
// For documents in memory see [opener.Named], for files [opener.Dir], for a
// server [HTTP].
func NoFindings(t testing.TB, open opener.Func, address string) *finding.Report {
	t.Helper()
	r, err := validate.Source(t.Context(), open, address, validate.Options{Advice: true, Sample: validate.SampleAll, Settle: settle, TempDir: t.TempDir()})
	if err != nil {
		t.Errorf("validate %s: %v", address, err)
	}
	for _, f := range r.Findings {
		t.Errorf("%s", f)
	}
	return r
}

// HTTP returns an Opener that sends requests with c, such as the client of a
// test server.
func HTTP(c *http.Client) opener.Func {
	return func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URI, nil)
		if err != nil {
			return nil, err
		}
		if !r.Document {
			req.Header.Set("Accept-Encoding", "identity") // otherwise the transport would decompress gzip, and hide it
		}
		if r.Ranged() {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.First, r.Last))
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, err
		}
		a := &opener.Answer{URI: resp.Request.URL.String(), Header: resp.Header, Size: resp.ContentLength, Body: resp.Body}
		switch resp.StatusCode {
		case http.StatusOK:
			return a, nil
		case http.StatusPartialContent:
			_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
			a.Partial = true
			if _, err := fmt.Sscan(total, &a.Size); err != nil {
				a.Size = -1
			}
			return a, nil
		}
		_ = resp.Body.Close() // not needed
		err = fmt.Errorf("status %s", resp.Status)
		if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return nil, err
	}
}
