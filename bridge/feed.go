package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/discover"
	"lockstep/intake/harvest/atompmh"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A feed is a harvester of Atom-PMH.
type feed struct {
	uri    string
	intake *atompmh.Harvester
	said   []string // warnings of the last harvest
}

func openFeed(b *Bridge, m *memory, f discover.Foreign, o destination.BridgeOptions) (harvester, error) {
	in, err := atompmh.New(f.URI, b.client, m.catalog(), setName, m.ledger, atompmh.Options{
		AllowEmpty: true, // the Destination asks before it deletes
		AcceptFeed: o.Accept, FullInterval: b.opts.FullInterval, AllowHosts: b.opts.AllowHosts,
		TempDir: m.dir, State: m.state(), ScanInterval: -1,
	})
	if err != nil {
		return nil, err
	}
	return &feed{uri: f.URI, intake: in}, nil
}

func (f *feed) harvest(ctx context.Context, full bool) (bool, error) {
	r, err := f.intake.Harvest(ctx, full)
	f.said = warnings(&r.Skipped)
	var another *atompmh.AnotherFeedError
	switch {
	case errors.As(err, &another):
		return false, &destination.RefusedError{
			Reason: fmt.Sprintf("harvest %s: %v", fetch.Printable(f.uri), another),
			Hint:   "to make it a mirror of the new feed, run sync with --baseline",
		}
	case errors.Is(err, atompmh.ErrEnded):
		return false, fmt.Errorf("harvest %s: %w", fetch.Printable(f.uri), destination.ErrEnded)
	case err != nil:
		return false, err
	}
	return false, broken(&r.Unreadable)
}

func (f *feed) status(s *destination.OriginStatus) {
	st := f.intake.Status()
	s.Source, s.Until, s.Warnings = st.ID, st.Watermark, f.said
	s.Whole = st.Whole && st.Gap == ""
	s.Complete = st.Complete
}

// open returns no content: the Destination downloads the resources of a feed.
func (f *feed) open(context.Context, string, resourcesync.Hashes) (io.ReadCloser, error) {
	return nil, fs.ErrNotExist
}

func (f *feed) applied(context.Context) error { return nil }

func (f *feed) maps() []filename.Map { return nil }
