package report

import "time"

// A FindingKind says how the mirror differs from what it should be.
type FindingKind string

// The kinds of findings. Foreign and Unverifiable do not put the mirror out of step: a
// file of another program is not a copy of a resource, and content of which the Source
// states nothing cannot differ from a statement.
const (
	Missing      FindingKind = "missing"      // listed, but not in the mirror
	Stale        FindingKind = "stale"        // in the mirror, but not as listed
	Corrupt      FindingKind = "corrupt"      // in the mirror, but the file is not what was written
	Extra        FindingKind = "extra"        // in the mirror, but not listed
	Foreign      FindingKind = "foreign"      // a file that another program put into the mirror
	Unverifiable FindingKind = "unverifiable" // in the mirror; the Source states neither hash, nor length and lastmod
)

// A Finding is one difference. Texts from the Source in it are printable.
type Finding struct {
	Kind     FindingKind `json:"kind"`
	Set      string      `json:"set,omitempty"` // name of the set that describes the resource; empty for foreign files
	URI      string      `json:"uri,omitempty"`
	Path     string      `json:"path,omitempty"`     // of the file, below the mirror
	Expected *Facts      `json:"expected,omitempty"` // what the Source states; of a corrupt file, what was written
	Found    *Facts      `json:"found,omitempty"`    // what the mirror has
	Cause    string      `json:"cause"`
}

// Facts describes some content.
type Facts struct {
	Hash    string    `json:"hash,omitempty"` // as documents write it: algorithm, colon, hex; several are separated by spaces
	Length  *int64    `json:"length,omitempty"`
	Lastmod time.Time `json:"lastmod,omitzero"`
}

// An AuditReport is what an audit found. Its JSON is what `audit --json` prints.
type AuditReport struct {
	Source       string    `json:"source"`
	Destination  string    `json:"destination"`
	Sets         []string  `json:"sets"`
	Complete     bool      `json:"complete"`  // in sync, and the Source's documents show that nothing is missing
	Content      bool      `json:"content"`   // every file was read
	InSync       bool      `json:"in_sync"`   // nothing is missing, stale, corrupt or extra, or all of it was repaired
	Resources    int64     `json:"resources"` // listed
	Missing      int64     `json:"missing"`
	Stale        int64     `json:"stale"`
	Corrupt      int64     `json:"corrupt"`
	Extra        int64     `json:"extra"`
	Foreign      int64     `json:"foreign"`
	Unverifiable int64     `json:"unverifiable"`
	Verified     int64     `json:"verified"` // files whose content was read and is as stated
	Read         int64     `json:"read"`     // bytes of files that were read
	Requests     int64     `json:"requests"`
	Elapsed      float64   `json:"elapsed_seconds"`
	Mended       *Mended   `json:"mended,omitempty"`   // with AuditOptions.Fix, if there was something to repair
	Findings     []Finding `json:"findings,omitempty"` // the first of them; all pass through the events
	Failures     []Failure `json:"failures,omitempty"` // documents that could not be read; with Fix, also failed repairs
	Warnings     []string  `json:"warnings,omitempty"`

	Unproven  []Unproven     `json:"unproven,omitempty"`  // why the mirror is not known to be complete
	Withdrawn []WithdrawnSet `json:"withdrawn,omitempty"` // sets that the Source no longer lists: their resources are extra
}

// Mended counts the repairs of what an audit found.
type Mended struct {
	Fetched int64 `json:"fetched"` // again, or for the first time
	Deleted int64 `json:"deleted"`
	Failed  int64 `json:"failed"` // could not be repaired; the Failures say why
}

// Differences returns the number of findings that put the mirror out of step.
func (r *AuditReport) Differences() int64 { return r.Missing + r.Stale + r.Corrupt + r.Extra }

// Count counts a finding, and lists it unless the list is full.
func (r *AuditReport) Count(f *Finding) {
	switch f.Kind {
	case Missing:
		r.Missing++
	case Stale:
		r.Stale++
	case Corrupt:
		r.Corrupt++
	case Extra:
		r.Extra++
	case Foreign:
		r.Foreign++
	case Unverifiable:
		r.Unverifiable++
	}
	if len(r.Findings) < MaxListed && f.Kind != Unverifiable {
		r.Findings = append(r.Findings, *f)
	}
}
