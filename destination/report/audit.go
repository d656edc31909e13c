package report

import "time"

// A FindingKind says how the mirror differs from what it should be.
type FindingKind string

// The kinds of findings. Foreign and Unverifiable do not put the mirror out of
// step: a file we did not write is not a copy of a resource, and where the
// Source states nothing there is nothing to differ from.
const (
	Missing      FindingKind = "missing"      // listed, not here
	Stale        FindingKind = "stale"        // here, but not as listed
	Corrupt      FindingKind = "corrupt"      // here, but the file is not what was written
	Extra        FindingKind = "extra"        // here, not listed
	Foreign      FindingKind = "foreign"      // a file in the mirror that we did not make
	Unverifiable FindingKind = "unverifiable" // here; the Source states neither hash, nor length and lastmod
)

// A Finding is one difference. What a Source sent in it is fit to be printed.
type Finding struct {
	Kind     FindingKind `json:"kind"`
	Set      string      `json:"set,omitempty"` // name of the set that describes the resource; empty for foreign files
	URI      string      `json:"uri,omitempty"`
	Path     string      `json:"path,omitempty"`     // of the file, below the mirror
	Expected *Facts      `json:"expected,omitempty"` // what the Source states; of a corrupt file, what was written
	Found    *Facts      `json:"found,omitempty"`    // what is here
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
	Complete     bool      `json:"complete"`  // it is in sync, and the Source's documents show that nothing is missing
	Content      bool      `json:"content"`   // every file was read
	InSync       bool      `json:"in_sync"`   // nothing is missing, stale, corrupt or extra, or it was mended
	Resources    int64     `json:"resources"` // listed
	Missing      int64     `json:"missing"`
	Stale        int64     `json:"stale"`
	Corrupt      int64     `json:"corrupt"`
	Extra        int64     `json:"extra"`
	Foreign      int64     `json:"foreign"`
	Unverifiable int64     `json:"unverifiable"`
	Verified     int64     `json:"verified"` // files whose bytes were read and found right
	Read         int64     `json:"read"`     // bytes of files that were read
	Requests     int64     `json:"requests"`
	Elapsed      float64   `json:"elapsed_seconds"`
	Mended       *Mended   `json:"mended,omitempty"`   // with AuditOptions.Fix, if there was something to mend
	Findings     []Finding `json:"findings,omitempty"` // the first of them; all pass through the events
	Failures     []Failure `json:"failures,omitempty"` // documents that could not be read; with Fix, what could not be mended
	Warnings     []string  `json:"warnings,omitempty"`

	Unproven  []Unproven     `json:"unproven,omitempty"`  // why it is not complete
	Withdrawn []WithdrawnSet `json:"withdrawn,omitempty"` // sets that the Source lists no more: their resources are extra
}

// Mended counts the repairs of what an audit found.
type Mended struct {
	Fetched int64 `json:"fetched"` // again, or for the first time
	Deleted int64 `json:"deleted"`
	Failed  int64 `json:"failed"` // could not be repaired; the Failures say why
}

// Differences is how many findings put the mirror out of step.
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
