package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/discover"
	"lockstep/intake"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// A harvest is applied in parts: what has arrived is useful at once, and
// waiting contents take space.
const (
	stretchRecords = 50_000
	stretchTime    = time.Minute
)

// A repository is a harvester of OAI-PMH.
type repository struct {
	uri      string
	which    string // describes which records are selected
	intake   *oaiintake.Harvester
	catalog  catalog.Catalog
	contents intake.Contents
	files    []filename.Map
	said     []string
}

// repositoryMaps stores records in files named after their identifiers.
func repositoryMaps(base, prefix string) []filename.Map {
	records := strings.TrimSuffix(oaipmh.RecordURL(base, prefix, "x"), "x")
	return []filename.Map{{Prefix: records, Dir: ".", Value: true, Suffix: ".xml"}}
}

func openRepository(b *Bridge, m *memory, f discover.Foreign, o destination.BridgeOptions) (harvester, error) {
	base, prefix, set, err := oaipmh.ParseAddress(f.URI)
	if err != nil {
		return nil, fmt.Errorf("harvest: %w", err)
	}
	r := &repository{uri: f.URI, which: "of format " + fetch.Printable(prefix), catalog: m.catalog(), contents: m.contents(), files: repositoryMaps(base, prefix)}
	if set != "" {
		r.which += " in set " + fetch.Printable(set)
	}
	r.intake, err = oaiintake.New(base, b.client, m.catalog(), setName, oaiintake.Options{
		Prefix: prefix, SetSpec: set, Contents: r.contents,
		AllowEmpty: true, // the Destination asks before it deletes
		State:      m.state(), TempDir: m.dir, ScanInterval: -1, FullInterval: b.opts.FullInterval,
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *repository) harvest(ctx context.Context, full bool) (bool, error) {
	report, more, err := r.intake.Harvest(ctx, oaiintake.Stretch{Full: full, Records: stretchRecords, Time: stretchTime})
	r.said = warnings(&report.Skipped)
	if err != nil {
		return false, err
	}
	if st, err := r.catalog.Status(ctx, setName); err == nil && st.Last == 0 && !more && report.Unreadable.Count == 0 {
		r.said = append(r.said, fmt.Sprintf("harvest %s: it has no records %s", fetch.Printable(r.uri), r.which))
	}
	return more, broken(&report.Unreadable)
}

func (r *repository) status(s *destination.OriginStatus) {
	s.Source, s.Warnings = r.uri, r.said
	at := r.intake.Status()
	s.Until, s.Whole = at.Until, at.Whole
	s.Complete = true // the list of records is complete
}

// open returns the metadata of a record, which is a part of the document at its
// address.
func (r *repository) open(ctx context.Context, uri string, h resourcesync.Hashes) (io.ReadCloser, error) {
	content, err := r.intake.Bitstream(ctx, &catalog.Record{URI: uri, Length: -1, Hashes: h})
	if errors.Is(err, fs.ErrNotExist) { // the address would return the same
		return nil, fmt.Errorf("harvest %s: %w", fetch.Printable(uri), destination.ErrGone)
	}
	return content, err
}

func (r *repository) applied(ctx context.Context) error {
	if r.contents == nil {
		return nil
	}
	return r.contents.Clear(ctx, setName)
}

func (r *repository) maps() []filename.Map { return r.files }
