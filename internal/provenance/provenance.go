// Package provenance compares copies of resources with what their origins serve: a
// resource of an Aggregator has a via link to its origin, which states what was
// published there (RS-REL-75).
//
//	c := provenance.New(client, provenance.Options{Sample: 100})
//	report, err := c.Run(ctx, copies)
//
// The link is a stranger's word. The client must not have credentials, and must
// not connect to private addresses unless the user permits it. Only as many bytes as
// the copy has, or as the link states, and one more, are read of any answer, within a
// time that depends on their number.
package provenance

import (
	"context"
	"io"
	"sync"
	"time"

	"lockstep/internal/fetch"
	"lockstep/internal/fetch/shown"
	"lockstep/resourcesync"
)

// A Verdict is the result for one copy.
type Verdict string

// The verdicts. Only Altered says that something is wrong: the others are what also
// happens between honest servers.
const (
	Identical Verdict = "identical" // the origin serves the bytes of the copy
	Changed   Verdict = "changed"   // the origin has changed since the copy was made
	Gone      Verdict = "gone"      // the origin has nothing there any more
	Altered   Verdict = "altered"   // the copy is not what the origin published
	Unclear   Verdict = "unclear"   // the bytes differ, and nothing shows why
	Unchecked Verdict = "unchecked" // the origin could not be asked
)

// A Copy is a resource at an Aggregator, or in a mirror of one.
type Copy struct {
	URI    string
	Via    *resourcesync.Link // leads to the origin; nil: there is none
	Hashes resourcesync.Hashes
	Length int64 // -1 if unknown

	// Open opens the bytes of the copy. It is called if Hashes has none that can be
	// compared; nil: the bytes are unavailable.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Facts describe content.
type Facts struct {
	Hash     string    `json:"hash,omitempty"`
	Length   *int64    `json:"length,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
}

// A Finding is a copy with another verdict than Identical. Its texts are printable.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	URI     string  `json:"uri"`              // of the copy
	Origin  string  `json:"origin"`           // to which the via link leads
	Stated  *Facts  `json:"stated,omitempty"` // by the via link
	Copy    *Facts  `json:"copy,omitempty"`   // of the copy
	Found   *Facts  `json:"found,omitempty"`  // at the origin; nil: no answer had content
	Cause   string  `json:"cause"`
}

// A Report has the results of a run. Its JSON is part of what commands print.
type Report struct {
	Copies     int64     `json:"with_via"`    // resources with a via link, among which the sample was chosen
	WithoutVia int64     `json:"without_via"` // resources without: nothing says that they come from elsewhere
	Checked    int64     `json:"checked"`     // the sum of all verdicts
	Seed       uint64    `json:"seed"`        // chooses the same resources again
	Identical  int64     `json:"identical"`
	Changed    int64     `json:"changed"`
	Gone       int64     `json:"gone"`
	Altered    int64     `json:"altered"`
	Unclear    int64     `json:"unclear"`
	Unchecked  int64     `json:"unchecked"`
	Findings   []Finding `json:"findings"` // the first of them
	Omitted    int64     `json:"omitted"`  // findings that were counted but are not listed
}

// count returns the field that counts a verdict.
func (r *Report) count(v Verdict) *int64 {
	switch v {
	case Identical:
		return &r.Identical
	case Changed:
		return &r.Changed
	case Gone:
		return &r.Gone
	case Altered:
		return &r.Altered
	case Unclear:
		return &r.Unclear
	}
	return &r.Unchecked
}

// Options configures a [Checker]. The zero value checks nothing.
type Options struct {
	Sample    int           // copies to check, chosen at random; SampleAll
	Seed      uint64        // of the choice; 0 chooses one, which the Report contains
	Jobs      int           // checked concurrently; default 8
	MaxBytes  int64         // read of one origin; default 16 GiB
	OnFinding func(Finding) // called for each, never concurrently; may be nil
}

const (
	// SampleAll as [Options.Sample] means every copy.
	SampleAll = -1
	// MaxSample caps a sample: it is held in memory.
	MaxSample = 100_000

	// maxListed caps the findings of a Report, which is held in memory.
	maxListed = 1000
	// defaultJobs is few enough for the servers of an Aggregator with one origin.
	defaultJobs = 8
	// defaultMaxBytes caps what is read of an origin.
	defaultMaxBytes = 16 << 30
)

// A Checker compares copies with their origins. Its methods are safe for concurrent
// use.
type Checker struct {
	client   *fetch.Client
	opts     Options
	patience time.Duration // with an origin, besides the time for its bytes

	mu     sync.Mutex // guards report, calls of OnFinding, and slow
	report Report
	slow   map[string]int // how often hosts were too slow
}

// New returns a Checker that sends requests with client.
func New(client *fetch.Client, o Options) *Checker {
	if o.Jobs <= 0 {
		o.Jobs = defaultJobs
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	o.Seed = seedOr(o.Seed)
	return &Checker{client: client, opts: o, patience: leastTime, report: Report{Seed: o.Seed, Findings: []Finding{}}, slow: make(map[string]int)}
}

// Report returns the results so far.
func (c *Checker) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}

// Check compares one copy with its origin and adds the result to the Report. Its error
// is that of ctx.
func (c *Checker) Check(ctx context.Context, one *Copy) error {
	if one.Via == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.report.WithoutVia++
		return nil
	}
	c.mu.Lock()
	c.report.Copies++
	c.mu.Unlock()
	return c.check(ctx, one)
}

// check compares a copy that is counted.
func (c *Checker) check(ctx context.Context, one *Copy) error {
	f := c.compare(ctx, one)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Checked++
	*c.report.count(f.Verdict)++
	if f.Verdict == Identical {
		return nil
	}
	if len(c.report.Findings) < maxListed {
		c.report.Findings = append(c.report.Findings, f)
	} else {
		c.report.Omitted++
	}
	if c.opts.OnFinding != nil {
		c.opts.OnFinding(f)
	}
	return nil
}

// compare returns the finding about a copy.
func (c *Checker) compare(ctx context.Context, one *Copy) Finding {
	stated := statedBy(one.Via)
	held := content{hashes: one.Hashes, length: one.Length}
	if err := c.complete(ctx, one, &held, &stated); err != nil {
		held.doubt = err
	}
	found := c.ask(ctx, one, &held, &stated)
	v, cause := decide(&held, &stated, &found)
	f := Finding{Verdict: v, URI: shown.Whole(one.URI), Origin: shown.Whole(fetch.WithoutUser(one.Via.Href)), Cause: cause}
	f.Stated, f.Copy = stated.facts(), held.facts()
	if found.state == answered {
		f.Found = found.facts()
	}
	return f
}
