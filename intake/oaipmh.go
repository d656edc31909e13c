package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"lockstep/catalog"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// OAIPMHOptions configures an [OAIPMH]. The zero value is ready to use.
type OAIPMHOptions struct {
	Prefix  string // metadataPrefix, of the format; default [oaipmh.DublinCore]
	SetSpec string // harvest this set of the repository only

	// URI gives a record the URI it gets in the catalog; two never the same.
	// Default: its GetRecord address, [oaipmh.RecordURL].
	URI func(identifier string) string

	// Contents keeps the bytes of the records; default none: then each is asked
	// for, by GetRecord, when it is opened.
	Contents Contents

	// Algorithms are the hashes to state, SHA-256 always among them; default MD5
	// and SHA-256.
	Algorithms []resourcesync.Algorithm

	// AllowEmpty lets a full harvest delete everything, or most of the set.
	AllowEmpty bool

	// State is the path of a file in which is kept, from run to run, how far the
	// harvest is; default: that is forgotten with the OAIPMH.
	State string

	// TempDir is for a file without a name, of what is to be deleted; default the
	// system's.
	TempDir string

	// ScanInterval is how often Watch harvests; default [DefaultOAIPMHInterval],
	// negative never.
	ScanInterval time.Duration

	// FullInterval is how often everything is harvested anew, which alone shows
	// what is gone without a trace; default [DefaultFullHarvest], negative never.
	FullInterval time.Duration

	// OnEvent is told what happens, never concurrently; may be nil. It must not
	// call the OAIPMH.
	OnEvent func(Event)
}

const (
	// DefaultOAIPMHInterval is polite: a question costs a repository a search.
	DefaultOAIPMHInterval = 10 * time.Minute

	// DefaultFullHarvest is a compromise: a repository is asked for all it has,
	// and what left it without a trace goes by then.
	DefaultFullHarvest = 30 * 24 * time.Hour
)

// An OAIPMH keeps a set of a catalog in step with a repository that speaks
// OAI-PMH 2.0.
type OAIPMH struct {
	name string
	o    OAIPMHOptions
}

// A Stretch bounds a [OAIPMH.Harvest]; zero is no bound.
type Stretch struct {
	Full    bool          // everything is harvested anew; one that is under way goes on
	Records int64         // listed
	Time    time.Duration // spent
}

// NewOAIPMH returns an OAIPMH that fills the set of cat from the repository at
// base. It asks through c.
func NewOAIPMH(base string, c *fetch.Client, cat catalog.Catalog, set string, o OAIPMHOptions) (*OAIPMH, error) {
	if base == "" {
		return nil, errors.New("OAI-PMH: the address is missing")
	}
	if c == nil {
		return nil, fmt.Errorf("OAI-PMH %s: %w", fetch.Printable(base), errNoClient)
	}
	if o.Prefix == "" {
		o.Prefix = oaipmh.DublinCore
	}
	return &OAIPMH{name: base, o: o}, nil
}

var errUnwritten = errors.New("not written yet")

// Scan brings the catalog in step with the repository: with what has changed
// since the last time, or all of it where that is due. The Report is right, as far
// as the harvest came, with an error too.
func (h *OAIPMH) Scan(ctx context.Context) (Report, error) { return Report{}, errUnwritten }

// Harvest is Scan in stretches: it returns when s is used up, with more if the
// harvest is not at its end; the next call goes on. What was listed is in the
// catalog then. After a crash it goes on where the repository still lets it.
func (h *OAIPMH) Harvest(ctx context.Context, s Stretch) (r Report, more bool, err error) {
	return Report{}, false, errUnwritten
}

// Complete reports whether the last harvest came to its end and all it was sent
// could be read.
func (h *OAIPMH) Complete() bool { return false }

// Watch scans at once, and again every [OAIPMHOptions.ScanInterval], until ctx
// ends; then it returns the cause. onChange is told of every scan that changed
// the catalog; the next one waits until it returns.
func (h *OAIPMH) Watch(ctx context.Context, onChange func(Report)) error { return errUnwritten }

// Bitstream opens the metadata of the record that r describes: out of the
// Contents, or else the repository's answer to GetRecord. The error matches
// [fs.ErrNotExist] if the repository has no such record any more.
func (h *OAIPMH) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	return nil, errUnwritten
}
