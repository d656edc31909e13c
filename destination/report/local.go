package report

import "time"

// A LocalReport is the result of the last examination of the mirror's own files.
type LocalReport struct {
	CheckedAt time.Time `json:"checked_at,omitzero"` // when all files were last examined; zero: never
	Checked   bool      `json:"checked"`             // in this run
	Files     int64     `json:"files"`               // that were examined then
	Missing   int64     `json:"missing"`             // deleted, or replaced by something that is not a file
	Changed   int64     `json:"changed"`             // with other content than was written
	Touched   int64     `json:"touched"`             // with another modification time, or entity tag, and the right content
	Repaired  int64     `json:"repaired"`            // of those missing or changed
}

// Damaged returns how many files are not as they were written.
func (r *LocalReport) Damaged() int64 { return r.Missing + r.Changed }

// SetRepaired notes that no file is damaged any more.
func (r *LocalReport) SetRepaired() {
	if r != nil {
		r.Repaired = r.Damaged()
	}
}
