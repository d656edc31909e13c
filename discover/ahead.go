package discover

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/internal/sleep"
)

// maxAhead caps the documents requested before it is their turn.
const maxAhead = 4

// A load is a page that is requested before it is its turn.
type load struct {
	tentative bool // its turn may never come
	cancel    context.CancelFunc
	done      chan struct{}
	page      *page // valid when done is closed, as err is
	err       error
}

// ahead requests pages whose turn comes soon; tentative: perhaps. Only when it is the
// turn of a page does its answer count, so the result is as if each had been requested
// then.
func (f *finder) ahead(ctx context.Context, tentative bool, uris ...string) {
	if f.client == nil {
		return // there are only files
	}
	for _, uri := range uris {
		key := withoutFragment(uri)
		u, err := url.Parse(uri)
		switch {
		case err != nil, u.Scheme != "http" && u.Scheme != "https":
			continue
		case f.seen[key], f.loads[key] != nil, f.pages+len(f.loads) >= maxPages:
			continue
		case len(f.loads) >= min(maxAhead, f.client.Jobs()):
			return
		case tentative && !fetch.Spare(f.client, u):
			continue
		}
		lctx, cancel := context.WithCancel(ctx)
		l := &load{tentative: tentative, cancel: cancel, done: make(chan struct{})}
		f.loads[key] = l
		r := fetch.Request{URI: uri, Once: f.once && !tentative, Tentative: tentative}
		go func() {
			defer close(l.done)
			l.page, l.err = openPage(lctx, f.client, r)
		}()
	}
}

// load opens uri, which may have been requested ahead. What a tentative request could
// not determine is requested again.
func (f *finder) load(ctx context.Context, uri string) (*page, error) {
	key := withoutFragment(uri)
	l := f.loads[key]
	if l == nil {
		return openPage(ctx, f.client, fetch.Request{URI: uri, Once: f.once})
	}
	delete(f.loads, key)
	stop := context.AfterFunc(ctx, l.cancel)
	<-l.done
	if l.err == nil {
		l.page.uri = uri
		l.page.body = &loadedBody{l.page.body, func() { stop(); l.cancel() }}
		return l.page, nil
	}
	stop()
	l.cancel()
	var status *fetch.StatusError
	answered := errors.As(l.err, &status)
	if !l.tentative || answered && !retryable(status.Status) {
		return nil, l.err
	}
	if until := fetch.NotBefore(l.err); answered && !until.IsZero() {
		fetch.Defer(f.client, []fetch.Deferral{{URI: uri, NotBefore: until, Cause: fetch.Printable(status.Error())}})
		return nil, l.err
	}
	if answered {
		_ = sleep.For(ctx, min(status.RetryAfter, fetch.MaxRetryAfter)) // the next request returns the error of ctx
	}
	silent := errors.Is(l.err, fetch.ErrTimeout) // of which two are enough
	return openPage(ctx, f.client, fetch.Request{URI: uri, Once: f.once || silent})
}

// drop ends the requests whose turn has not come.
func (f *finder) drop() {
	for _, l := range f.loads {
		l.cancel()
	}
	for key, l := range f.loads {
		<-l.done
		if l.err == nil {
			_ = l.page.close() // nothing of it was needed
		}
		delete(f.loads, key)
	}
}

// A loadedBody is the body of a page that was requested ahead.
type loadedBody struct {
	io.ReadCloser
	cancel func()
}

func (b *loadedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// isBase reports whether u is the bare address of a site or of a part of one: its
// Source Description is probably at the well-known URI.
func isBase(u *url.URL) bool {
	return (isRoot(u.Path) || strings.HasSuffix(u.Path, "/")) && u.RawQuery == "" && u.Fragment == "" && !mayBeRepository(u)
}
