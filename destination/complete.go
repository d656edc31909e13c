package destination

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// unproven says what the documents of a set leave open.
func (s *session) unproven(st *setState) []Unproven {
	if st.Foreign != nil && st.Partial && !st.Unselected {
		return []Unproven{{Set: fetch.Printable(st.URI), Reason: fetch.Printable("set " + st.Name + ": not all of it could be read, and records that only the rest names may be missing"),
			Command: s.command("--baseline"), Needs: "all of it can be read"}}
	}
	if st.Foreign != nil || st.Unselected || st.Lists == "" && st.Changes == "" {
		return nil
	}
	d := cmp.Or(st.Found, &st.Doubts)
	var all []Unproven
	add := func(reason, needs string, command bool) {
		u := Unproven{Set: fetch.Printable(st.URI), Reason: fetch.Printable("set " + st.Name + ": " + reason), Needs: needs}
		if command {
			u.Command = s.command("--baseline")
		}
		all = append(all, u)
	}
	list := "the Source publishes a Resource List or Resource Dump"
	if st.IsChangesOnly(d) {
		reason := "it was made from a " + changesName(st) + " alone, and what was at the Source before " + wording.Time(d.Reach) + " is unknown"
		if d.Reach.IsZero() {
			reason = "it was made from a " + changesName(st) + " alone, and what was at the Source before its first change is unknown"
		}
		if st.Lists != "" {
			list = ""
		}
		add(reason, list, true)
	}
	if d.Gap != "" {
		needs := list
		if st.Lists != "" {
			needs = "the Source publishes a Resource List that is newer than the gap"
		}
		add(d.Gap+": changes may be missing", needs, true)
	}
	if d.NoFrom {
		add("its "+changesName(st)+" does not say from when on it is complete (from), and changes may be missing", "it must state from", false)
	}
	if d.NoAt {
		add("its Resource List does not say as of when it is (at), and changes between it and the "+changesName(st)+" may be missing", "it must state at", false)
	}
	if st.Pending > 0 {
		add(wording.Plural(st.Pending, "deletion")+" that it notified, and has not confirmed, are pending: what they name may be gone", "", false)
		last := &all[len(all)-1]
		last.Command, last.Needs = s.command(), "the Source confirms or contradicts them"
	}
	return all
}

func changesName(st *setState) string {
	if st.OnlyChangeDump {
		return "Change Dump"
	}
	return "Change List"
}

// command returns the sync of this mirror, with flags.
func (s *session) command(flags ...string) string {
	source := cmp.Or(s.report.Source, "SOURCE")
	return strings.Join(append([]string{"lockstep sync", shellWord(source), shellWord(cmp.Or(s.d.opts.Dest, "DEST"))}, flags...), " ")
}

// shellWord returns s as a shell takes it.
func shellWord(s string) string {
	s = fetch.Printable(s)
	if strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:%@+,=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// prove records what a run for a set leaves open.
func (s *session) prove(st *setState, r *SetReport) {
	if s.past != nil {
		return
	}
	all := s.unproven(st)
	for i := range s.report.Fallbacks {
		if f := &s.report.Fallbacks[i]; f.Set == fetch.Printable(st.Name) && f.Missing == string(st.ChangesCapability()) && f.Unproven != "" {
			all = append(all, Unproven{Set: r.URI, Reason: fmt.Sprintf("set %s: %s cannot be read, and %s", f.Set, f.URI, f.Unproven),
				Command: s.command(), Needs: "it can be read"})
		}
	}
	r.AddUnproven(&s.report.Report, all)
}

// settle says of each set and of all together whether they are complete.
func (s *session) settle(r *Report, err error) {
	if t := fetch.NotBefore(err); !t.IsZero() {
		if t = t.UTC().Truncate(time.Second); r.NotBefore.IsZero() || t.Before(r.NotBefore) {
			r.NotBefore = t
		}
	}
	r.Complete = err == nil && len(r.Failures) == 0 && r.Failed+r.Refused == 0 && len(r.Missing) == 0
	for i := range r.BySet {
		b := &r.BySet[i]
		b.Complete = b.IsComplete()
		r.Complete = r.Complete && b.Complete
	}
	if s.past != nil {
		return
	}
	if !r.Complete && err != nil {
		r.Unproven = append([]Unproven{report.NewUnprovenFailure(err, s.command())}, r.Unproven...)
	}
	for i := range r.Withdrawn {
		r.Unproven = append(r.Unproven, s.withdrawnUnproven(&r.Withdrawn[i]))
	}
	r.Complete = r.Complete && len(r.Unproven) == 0
}

func (s *session) withdrawnUnproven(w *WithdrawnSet) Unproven {
	return Unproven{Set: w.URI, Reason: fmt.Sprintf("set %s: the Source has withdrawn it, and whether its resources still exist is unknown", w.Name),
		Command: s.command("--baseline", "--max-delete", "100")}
}

// lookAt notes what the documents that an audit compares with leave open. Of what
// the mirror has applied already, its state knows.
func (r *setRun) lookAt(c *entries.Chain, at resourcesync.Datetime) {
	st := r.set
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

// settleAudit says what an audit leaves open.
func (a *auditor) settleAudit(r *AuditReport, err error) {
	r.Unproven = a.report.Unproven
	if err != nil {
		r.Unproven = append(r.Unproven, report.NewUnprovenFailure(err, a.command()))
	}
	for i := range r.Withdrawn {
		r.Unproven = append(r.Unproven, a.withdrawnUnproven(&r.Withdrawn[i]))
	}
}
