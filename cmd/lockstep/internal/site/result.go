package site

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/internal/fetch"
	"lockstep/source"
)

// A Publication is the result of [Site.PublishOnce] and [Site.Dump].
type Publication struct {
	scans  []scanned
	report source.Report
	dumps  source.DumpReport
}

// Failed returns why sets could not be read that are published as they were.
func (p *Publication) Failed() error {
	var errs []error
	for _, scan := range p.scans {
		errs = append(errs, scan.err)
	}
	return errors.Join(errs...)
}

// Resources returns how many are published, in all sets together.
func (p *Publication) Resources() (n int64) {
	for _, set := range p.report.Sets {
		n += set.Resources
	}
	return n
}

// Held returns the names of the sets that are not published yet, because the first run of
// an upstream is not over.
func (p *Publication) Held() (names []string) {
	for i := range p.report.Sets {
		if set := &p.report.Sets[i]; set.Held {
			names = append(names, set.Set)
		}
	}
	return names
}

// A Summary is what publish prints with --json.
type Summary struct {
	BaseURL        string       `json:"base_url"`
	Out            string       `json:"out"`
	CapabilityList []string     `json:"capability_lists"`
	Resources      int64        `json:"resources"`
	Created        int64        `json:"created"`
	Updated        int64        `json:"updated"`
	Deleted        int64        `json:"deleted"`
	Unreadable     int64        `json:"unreadable"`
	Hidden         int64        `json:"hidden"`  // files and directories that were left out because their names begin with a dot
	Private        int64        `json:"private"` // files and directories that are published although other users may not read them
	Written        bool         `json:"written"`
	DumpPackages   int          `json:"dump_packages"` // made now
	Sets           []SetSummary `json:"sets"`
	Elapsed        float64      `json:"elapsed_seconds"`
}

// A SetSummary sums up the publication of one set.
type SetSummary struct {
	Set            string `json:"set"`
	CapabilityList string `json:"capability_list"`
	Resources      int64  `json:"resources"`
	Created        int64  `json:"created"`
	Updated        int64  `json:"updated"`
	Deleted        int64  `json:"deleted"`
	Unreadable     int64  `json:"unreadable"`
	Hidden         int64  `json:"hidden"`
	Private        int64  `json:"private"`
	PrivateFirst   string `json:"private_first,omitempty"` // path of the first of them
	Error          string `json:"error,omitempty"`
}

// Summary sums up a publication to the place out, which took some time.
func (p *Publication) Summary(baseURL, out string, took time.Duration) Summary {
	sum := Summary{BaseURL: baseURL, Out: out, Written: p.report.Written || p.dumps.Written, Resources: p.Resources(), Elapsed: took.Seconds()}
	for i, scan := range p.scans {
		set := SetSummary{
			Set: scan.set.name, CapabilityList: scan.set.list, Created: scan.Created, Updated: scan.Updated, Deleted: scan.Deleted,
			Unreadable: scan.Unreadable.Count, Hidden: scan.Hidden.Count, Private: scan.Private.Count,
		}
		if len(scan.Private.First) > 0 {
			set.PrivateFirst = scan.Private.First[0].Path
		}
		if i < len(p.report.Sets) {
			set.Resources = p.report.Sets[i].Resources
		}
		if scan.err != nil {
			set.Error = fetch.Printable(scan.err.Error())
		}
		sum.Sets = append(sum.Sets, set)
		sum.CapabilityList = append(sum.CapabilityList, set.CapabilityList)
		sum.Created, sum.Updated, sum.Deleted = sum.Created+set.Created, sum.Updated+set.Updated, sum.Deleted+set.Deleted
		sum.Unreadable += set.Unreadable
		sum.Hidden, sum.Private = sum.Hidden+set.Hidden, sum.Private+set.Private
	}
	for _, d := range p.dumps.Sets {
		if d.Dump {
			sum.DumpPackages += d.Packages - d.Reused
		}
		sum.DumpPackages += d.Added
	}
	return sum
}

// Hidden returns how many files and directories were left out because their names begin with
// a dot, in all sets together.
func (p *Publication) Hidden() (n int64) {
	for i := range p.scans {
		n += p.scans[i].Hidden.Count
	}
	return n
}

// Private returns how many files and directories are published although other users may not
// read them, in all sets together.
func (p *Publication) Private() (n int64) {
	for i := range p.scans {
		n += p.scans[i].Private.Count
	}
	return n
}

// readable returns a hint how to make files readable that are not.
func readable(files *intake.Problems) string {
	forbidden, malformed := false, false
	for _, p := range files.First {
		if _, ok := errors.AsType[*intake.EntryError](p.Err); ok {
			malformed = true
		} else if errors.Is(p.Err, fs.ErrPermission) {
			forbidden = true
		}
	}
	switch {
	case forbidden && malformed:
		return "see that this user may read them, and correct what is malformed"
	case forbidden:
		return "see that this user may read them"
	case malformed:
		return "correct what is malformed, and run the same command again"
	}
	return "run the same command again when that is corrected"
}

// ErrUnreadable reports resources that could not be published.
var ErrUnreadable = errors.New("could not be read: not published, or still in the last known state")

// Unreadable returns an error if a scan could not read everything.
func (p *Publication) Unreadable() error {
	var errs []error
	for _, scan := range p.scans {
		switch n, kind := scan.Unreadable.Count, scan.set.from.Kind; {
		case n == 0:
		case kind.Away, kind.Harvest:
			errs = append(errs, term.WithHint(fmt.Errorf("set %s: %s could not be read; the others are published", scan.set.name, term.Count(n, kind.Part)),
				"they are named above; as long as there are any, no resource is deleted because it is not listed"))
		case kind.Part != "":
			errs = append(errs, term.WithHint(fmt.Errorf("set %s: %s could not be read; what was published before remains", scan.set.name, term.Count(n, kind.Part)),
				"they are named above; see that these credentials may read them"))
		default:
			errs = append(errs, term.WithHint(fmt.Errorf("%s %w", term.Count(n, "file"), ErrUnreadable), "they are named above; "+readable(&scan.Unreadable)))
		}
	}
	return errors.Join(errs...)
}
