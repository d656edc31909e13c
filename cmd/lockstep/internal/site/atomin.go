package site

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/intake"
	"lockstep/intake/harvest/atompmh"
	"lockstep/internal/fetch"
)

// openFeed makes a set from a feed of Atom-PMH.
func openFeed(w *wayIn) (origin, error) {
	client, err := w.site.client(w.Place)
	if err != nil {
		return nil, err
	}
	o := atompmh.Options{
		Types: w.config.Types, Overlap: time.Duration(w.config.Overlap), AcceptFeed: w.config.AcceptFeed,
		Content: w.config.HashesGiven, Algorithms: w.hashes, AllowEmpty: w.allowEmpty, TempDir: w.site.opts.State,
		State: w.stateFile("atom-pmh.json"), ScanInterval: w.interval, OnEvent: w.onEvent,
	}
	if every := w.config.FullInterval; every != nil {
		o.FullInterval = Interval(time.Duration(*every))
	}
	feed, err := atompmh.New(w.WithoutUser(), client, w.catalog, w.set, w.site.db.Ledger(), o)
	if err != nil {
		return nil, err
	}
	return feedOrigin{feed}, nil
}

// A feedOrigin keeps its resources when its feed has ended.
type feedOrigin struct{ *atompmh.Harvester }

// Scan implements [origin].
func (f feedOrigin) Scan(ctx context.Context) (intake.Report, error) {
	r, err := f.Harvester.Scan(ctx)
	st := f.Status()
	if !errors.Is(err, atompmh.ErrEnded) || st.ID == "" {
		return r, err
	}
	r.Skipped.Count++
	r.Skipped.First = append(r.Skipped.First, intake.Problem{Path: fetch.Printable(st.Address), Err: fmt.Errorf("%w; its records are kept", atompmh.ErrEnded)})
	return r, nil
}
