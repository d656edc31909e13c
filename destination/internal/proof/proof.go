// Package proof decides whether a mirror is known to be complete: it lists the reasons
// why it may lack something that the Source has, or still have something that is gone,
// with the command that resolves each.
package proof

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/shown"
	"lockstep/resourcesync"
)

// A Mirror names a mirror and its Source as commands do. Empty names are placeholders.
type Mirror struct{ Source, Dest string }

// Reasons returns what the documents of a set leave open, and what was used in place
// of documents that could not be read.
func (m Mirror) Reasons(st *saved.Set, fallbacks []report.Fallback) []report.Unproven {
	all := m.ofDocuments(st)
	for i := range fallbacks {
		if f := &fallbacks[i]; f.Set == fetch.Printable(st.Name) && f.Missing == string(st.ChangesCapability()) && f.Unproven != "" {
			all = append(all, report.Unproven{Set: shown.Whole(st.URI), Reason: fetch.Printable(fmt.Sprintf("set %s: %s cannot be read, and %s", f.Set, f.URI, f.Unproven)),
				Command: m.command(), Needs: "it can be read"})
		}
	}
	return all
}

// ofDocuments returns what the documents of a set leave open.
func (m Mirror) ofDocuments(st *saved.Set) []report.Unproven {
	var all []report.Unproven
	add := func(reason, needs, command string) {
		all = append(all, report.Unproven{Set: shown.Whole(st.URI), Reason: fetch.Printable("set " + st.Name + ": " + reason), Command: command, Needs: needs})
	}
	baseline := m.command("--baseline")
	if st.Foreign != nil && st.Partial && !st.Unselected {
		reason, command := "not all of it could be read, and records that only the rest names may be missing", baseline
		if h := st.Harvest; st.Watermark.IsZero() && (h == nil || h.Seq == 0 && h.Fresh == 0) {
			reason, command = "nothing of it could be read", m.command()
		}
		add(reason, "all of it can be read", command)
		return all
	}
	if st.Foreign != nil || st.Unselected || st.Lists == "" && st.Changes == "" {
		return nil
	}
	if d := st.Found; d != nil && !d.ChangesOnly && st.Lists == "" && !st.Complete && st.Watermark.IsZero() {
		add("nothing of its "+wording.Capability(string(st.ChangesCapability()))+" could be read", "it can be read", m.command())
		return all
	}
	d := cmp.Or(st.Found, &st.Doubts)
	list, changes := "the Source publishes a Resource List or Resource Dump", wording.Capability(string(st.ChangesCapability()))
	if st.IsChangesOnly(d) {
		before := wording.Time(d.Reach)
		if d.Reach.IsZero() {
			before = "its first change"
		}
		if st.Lists != "" {
			list = ""
		}
		add("it was made from a "+changes+" alone, and what was at the Source before "+before+" is unknown", list, baseline)
	}
	if d.Gap != "" {
		needs := list
		if st.Lists != "" {
			needs = "the Source publishes a Resource List that is newer than the gap"
		}
		add(d.Gap+": changes may be missing", needs, baseline)
	}
	if d.NoFrom {
		add("its "+changes+" does not say from when on it is complete (from), and changes may be missing", "it must state from", "")
	}
	if d.NoAt {
		add("its Resource List does not say as of when it is (at), and changes between it and the "+changes+" may be missing", "it must state at", "")
	}
	if st.Pending > 0 {
		add("the Source has not confirmed "+wording.Plural(st.Pending, "deletion")+" that it notified: what was to be deleted may be gone there",
			"the Source confirms or contradicts them", m.command())
	}
	return all
}

// Settle decides for each set of a report, and for all together, whether it is
// complete. The run ended with err. A run that restored a past state leaves no reasons.
func (m Mirror) Settle(r *report.Report, err error, past bool) {
	r.Complete = err == nil && len(r.Failures) == 0 && r.Failed+r.Refused == 0 && len(r.Missing) == 0
	for i := range r.BySet {
		b := &r.BySet[i]
		b.Complete = b.IsComplete()
		r.Complete = r.Complete && b.Complete
	}
	if past {
		return
	}
	if !r.Complete && err != nil {
		r.Unproven = append([]report.Unproven{m.ofFailure(err)}, r.Unproven...)
	}
	r.Unproven = append(r.Unproven, m.ofWithdrawn(r.Withdrawn)...)
	r.Complete = r.Complete && len(r.Unproven) == 0
}

// SettleAudit adds to the reasons that an audit found so far the error that ended it,
// and the sets that the Source has withdrawn.
func (m Mirror) SettleAudit(r *report.AuditReport, err error) {
	if err != nil {
		r.Unproven = append(r.Unproven, m.ofFailure(err))
	}
	r.Unproven = append(r.Unproven, m.ofWithdrawn(r.Withdrawn)...)
}

// ofFailure returns what the error of a run leaves open. The same command closes it; if it was
// refused, with the flags that consent.
func (m Mirror) ofFailure(err error) report.Unproven {
	u := report.NewUnprovenFailure(err, m.command())
	var r *report.RefusedError
	if errors.As(err, &r) && r.Consent != "" {
		u.Command, u.Needs = m.command(r.Consent), "what was refused is intended"
	}
	return u
}

// ofWithdrawn returns what withdrawn sets leave open.
func (m Mirror) ofWithdrawn(sets []report.WithdrawnSet) []report.Unproven {
	var all []report.Unproven
	for i := range sets {
		w := &sets[i]
		all = append(all, report.Unproven{Set: w.URI, Reason: fmt.Sprintf("set %s: the Source has withdrawn it, and whether its resources still exist is unknown", w.Name),
			Command: m.command("--baseline", "--max-delete", "100")})
	}
	return all
}

// command returns the sync of the mirror with flags.
func (m Mirror) command(flags ...string) string {
	return strings.Join(append([]string{"lockstep sync", shellWord(cmp.Or(m.Source, "SOURCE")), shellWord(cmp.Or(m.Dest, "DEST"))}, flags...), " ")
}

// shellWord returns s as a shell takes it.
func shellWord(s string) string {
	s = shown.Whole(s)
	if strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:%@+,=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Review notes in the state of a set what the documents that an audit compares with
// leave open. The state already says so of those that the mirror has applied.
func Review(st *saved.Set, c *entries.Chain, at resourcesync.Datetime) {
	if st.Complete && (c.From.IsZero() || !c.From.Time().After(st.Watermark)) {
		return
	}
	d := st.CurrentDoubts()
	if gap := c.GapAfter(at); gap != "" {
		d.Gap = gap
	}
	if !st.Complete {
		c.Doubt(d, st.Lists == "")
	}
}
