package alert

import (
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/destination"
	"lockstep/validate/finding"
)

// A count is a figure that is one of several.
type count struct {
	label string
	n     int64
}

func counts(f *admin.Figures, name, help, label string, all []count, labels ...string) {
	for _, c := range all {
		f.Gauge(name, help, float64(c.n), append([]string{label, c.label}, labels...)...)
	}
}

// Mirrors returns the figures of a run for several mirrors.
func Mirrors(all []func(*admin.Figures)) func(*admin.Figures) {
	return func(f *admin.Figures) {
		for _, figures := range all {
			figures(f)
		}
	}
}

// Mirror returns the figures of one of several mirrors: of what a run did, if that is known,
// and whether it failed.
func Mirror(name string, sync *destination.Report, audit *destination.AuditReport, failed bool) func(*admin.Figures) {
	return func(f *admin.Figures) {
		value := 0.0
		if failed {
			value = 1
		}
		f.Gauge("lockstep_run_mirror_failed", "Whether the last run failed for this mirror: 1 or 0.", value, "mirror", name)
		if sync != nil {
			Sync(sync, "mirror", name)(f)
		}
		if audit != nil {
			Audit(audit, "mirror", name)(f)
		}
	}
}

// Sync returns the figures of a run of sync, with labels.
func Sync(r *destination.Report, labels ...string) func(*admin.Figures) {
	return func(f *admin.Figures) {
		counts(f, "lockstep_run_resources", "Resources that the last run processed, by result.", "outcome", []count{
			{"created", r.Created}, {"updated", r.Updated}, {"deleted", r.Deleted},
			{"unchanged", r.Unchanged}, {"failed", r.Failed}, {"refused", r.Refused},
		}, labels...)
		f.Gauge("lockstep_run_received_bytes", "Bytes that the last run received over the network.", float64(r.Bytes), labels...)
		f.Gauge("lockstep_run_requests", "Requests that the last run sent.", float64(r.Requests), labels...)
		if !r.SyncedUntil.IsZero() {
			f.Gauge("lockstep_run_synced_until_timestamp_seconds", "On the Source's clock: all changes before are in the mirror.", seconds(r.SyncedUntil), labels...)
		}
	}
}

// Audit returns the figures of a run of audit, with labels.
func Audit(r *destination.AuditReport, labels ...string) func(*admin.Figures) {
	return func(f *admin.Figures) {
		counts(f, "lockstep_run_findings", "Differences that the last audit found, by kind.", "kind", []count{
			{"missing", r.Missing}, {"stale", r.Stale}, {"corrupt", r.Corrupt}, {"extra", r.Extra},
		}, labels...)
		f.Gauge("lockstep_run_listed_resources", "Resources that the Source listed at the last audit.", float64(r.Resources), labels...)
	}
}

// Validate returns the figures of a run of validate.
func Validate(r *finding.Report) func(*admin.Figures) {
	return func(f *admin.Figures) {
		counts(f, "lockstep_run_findings", "Findings of the last validation, by level.", "level", []count{
			{"error", int64(r.Errors)}, {"warning", int64(r.Warnings)},
		})
		f.Gauge("lockstep_run_documents", "Documents that the last validation read.", float64(r.Documents))
	}
}

// Publish returns the figures of a run of publish.
func Publish(resources, created, updated, deleted int64) func(*admin.Figures) {
	return func(f *admin.Figures) {
		f.Gauge("lockstep_run_published_resources", "Resources in the documents after the last run.", float64(resources))
		counts(f, "lockstep_run_resources", "Resources that the last run processed, by result.", "outcome", []count{
			{"created", created}, {"updated", updated}, {"deleted", deleted},
		})
	}
}
