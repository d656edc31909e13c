package report

import "time"

// A Difference is one resource that was not the same at two instants.
type Difference struct {
	Change string `json:"change"` // "created", "updated", "deleted" or [DiffUnknown]
	URI    string `json:"uri"`
}

// DiffUnknown is the Change of a resource that existed at both instants, if
// nothing stated about it allows a comparison of its contents (RA-DST-06).
const DiffUnknown = "unknown"

// A DiffReport is the result of comparing two instants.
type DiffReport struct {
	Source    string    `json:"source"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Sets      []string  `json:"sets"`
	Created   int64     `json:"created"`
	Updated   int64     `json:"updated"`
	Deleted   int64     `json:"deleted"`
	Unknown   int64     `json:"unknown"`
	Unchanged int64     `json:"unchanged"`
	Requests  int64     `json:"requests"`
	Elapsed   float64   `json:"elapsed_seconds"`
	Warnings  []string  `json:"warnings,omitempty"`
	Failures  []Failure `json:"failures,omitempty"`
}
