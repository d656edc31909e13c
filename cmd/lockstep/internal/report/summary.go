// Package report shows people how a synchronization proceeds and what its result
// is: progress, failures grouped by cause, totals.
package report

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/fetch/shown"
)

// PrintSync prints the result of a run.
func PrintSync(ctx context.Context, io term.IO, out *term.Options, d *destination.Destination, r *destination.Report, err error) error {
	switch {
	case out.JSON:
		out := bufio.NewWriter(io.Out)
		werr := WriteJSON(ctx, out, "", d, r, err)
		_ = out.WriteByte('\n') // errors stay until Flush
		if ferr := out.Flush(); werr == nil && ferr != nil {
			werr = fmt.Errorf("write result: %w", ferr)
		}
		return werr
	case out.Quiet:
		return nil
	}
	if _, none := errors.AsType[*destination.NoPastError](err); none {
		return nil // the error says it
	}
	begun := r.Created+r.Updated+r.Deleted+r.Failed+r.Refused > 0
	if err != nil && !errors.Is(err, destination.ErrIncomplete) && (!begun || errors.Is(err, term.ErrInterrupted)) {
		return nil // the error says it
	}
	if !r.At.IsZero() {
		summarizePast(io, r, err)
	} else {
		presentState(io, r, err)
	}
	io.Printf("  %s\n", TallyText(r.Created, r.Updated, r.Deleted, r.Unchanged, r.Failed, r.Refused))
	if text := waysText(&r.By); text != "" {
		io.Printf("  contents: %s\n", text)
	}
	io.Printf("  %s, %s, %s", term.Count(r.Requests, "request"), term.Size(r.Bytes), term.Elapsed(time.Duration(r.Elapsed*float64(time.Second))))
	how := howText(r.Mode, r.Via)
	if r.Mode == destination.ModeNone && r.Created+r.Updated+r.Deleted > 0 {
		how = "no changes at the Source"
	}
	if r.Mode == destination.ModeBaseline && err != nil && !begun && r.Unchanged == 0 && len(r.Failures) > 0 {
		how = "nothing could be read"
	} else if r.Mode == destination.ModeBaseline && err != nil && slices.ContainsFunc(r.Failures, func(f destination.Failure) bool { return !f.IsResource() }) {
		how += ", as far as it could be read"
	}
	if how != "" {
		io.Printf("; %s", how)
	}
	io.Printf("\n")
	if r.Moved > 0 {
		io.Printf("  %s moved to their own names\n", term.Count(r.Moved, "file"))
	}
	if text := localText(r); text != "" {
		io.Printf("  %s\n", text)
	}
	if r.Kept != nil {
		io.Printf("  %s\n", KeptText(r.Kept))
	}
	if r.DryRun && r.Expected > 0 {
		io.Printf("  %s of content to fetch, as far as the Source states it\n", term.Size(r.Expected))
	}
	for _, sentence := range r.Plan {
		if r.DryRun {
			io.Printf("  plan: %s\n", sentence)
		}
	}
	for i := range r.Fallbacks {
		io.Printf("  fallback: %s\n", r.Fallbacks[i].String())
	}
	PrintWay(io, r.Way)
	return nil
}

// PrintWay prints the steps of a discovery. Addresses at the host of the first one are shown
// without it from then on.
func PrintWay(io term.IO, way []string) {
	origin := ""
	for i, step := range way {
		if i == 0 {
			if scheme, rest, ok := strings.Cut(step, "://"); ok && (scheme == "http" || scheme == "https") {
				host, _, _ := strings.Cut(rest, "/")
				origin = scheme + "://" + host + "/"
			}
		}
		if head, tail, ok := strings.Cut(step, " "); ok && origin != "" {
			if i > 0 && strings.HasPrefix(head, origin) {
				head = head[len(origin)-1:]
			}
			step = head + strings.ReplaceAll(" "+tail, " "+origin, " /")
		}
		io.Printf("  by way of %s\n", step)
	}
}

// WriteJSON writes the report as one JSON object, with the name of the mirror if it has one.
// The failures come last and are all there are: those of resources are read from the journal
// one by one, so that memory does not grow with their number. Errors of out are left to the
// caller. d is not used if r is not about a run.
func WriteJSON(ctx context.Context, out *bufio.Writer, name string, d *destination.Destination, r *destination.Report, err error) error {
	own := *r
	pending := !r.DryRun && r.At.IsZero() && len(r.BySet) > 0
	if pending {
		own.Failures = nil
	}
	head, merr := marshal(struct {
		Name string `json:"name,omitempty"`
		*destination.Report
		Error string `json:"error,omitempty"`
	}{name, &own, ErrorText(err)})
	if merr != nil {
		return fmt.Errorf("write result: %w", merr)
	}
	if !pending {
		_, _ = out.Write(head)
		return nil
	}
	_, _ = out.Write(head[:len(head)-1])
	sep := `,"failures":[`
	for f, ferr := range failures(context.WithoutCancel(ctx), d, r) {
		if ferr != nil {
			merr = fmt.Errorf("read what is pending: %w", ferr)
			break
		}
		text, ferr := marshal(f)
		if ferr != nil {
			merr = fmt.Errorf("write result: %w", ferr)
			break
		}
		_, _ = out.WriteString(sep)
		_, _ = out.Write(text)
		sep = ","
	}
	if sep == "," {
		_, _ = out.WriteString("]")
	}
	_ = out.WriteByte('}')
	return merr
}

// failures yields the failures of documents that r lists, and all that is pending.
func failures(ctx context.Context, d *destination.Destination, r *destination.Report) iter.Seq2[destination.Failure, error] {
	return func(yield func(destination.Failure, error) bool) {
		for i := range r.Failures {
			if f := r.Failures[i]; !f.IsResource() && !yield(f, nil) {
				return
			}
		}
		for f, err := range d.Pending(ctx, r) {
			if !yield(f, err) {
				return
			}
		}
	}
}

// marshal returns v as JSON without escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// presentState prints the first line of the result of a run.
func presentState(io term.IO, r *destination.Report, err error) {
	state := "in step with"
	switch {
	case r.DryRun:
		state = "dry run, nothing was done: to be in step with"
	case err != nil:
		state = "not yet in step with"
	}
	io.Printf("%s %s", state, r.Source)
	if !r.SyncedUntil.IsZero() && !r.DryRun {
		io.Printf(", as of %s", r.SyncedUntil.UTC().Format(time.RFC3339))
	}
	open := UnprovenText(r.Unproven)
	if open != "" && err == nil {
		io.Printf(", as far as it can be known:")
	}
	io.Printf("\n")
	if open != "" {
		io.Printf("  %s\n", open)
	}
}

// UnprovenText says in one line why a mirror is not known to be complete, failures
// aside, which the error says.
func UnprovenText(all []destination.Unproven) string {
	text, more := "", 0
	for i := range all {
		switch {
		case all[i].IsFailure():
		case text == "":
			text = "not known to be complete: " + all[i].String()
		default:
			more++
		}
	}
	if more > 0 {
		text += "; and " + term.Count(int64(more), "other reason") + ", which --json lists"
	}
	return text
}

// TallyText says how many resources were created, updated, deleted and so on.
func TallyText(created, updated, deleted, unchanged, failed, refused int64) string {
	text := term.Thousands(created) + " created, " + term.Thousands(updated) + " updated, " + term.Thousands(deleted) + " deleted"
	for _, part := range []struct {
		n    int64
		what string
	}{{unchanged, "unchanged"}, {failed, "failed"}, {refused, "refused"}} {
		if part.n > 0 {
			text += ", " + term.Thousands(part.n) + " " + part.what
		}
	}
	return text
}

// waysText lists the methods by which contents were obtained; it is empty if
// each was requested separately.
func waysText(by *destination.By) string {
	var parts []string
	adopted := "adopted from files that were here"
	if by.AdoptedByTime > 0 {
		adopted += ", " + term.Thousands(by.AdoptedByTime) + " of them by length and time alone, as the Source states no hash"
	}
	for _, part := range []struct {
		n    int64
		what string
	}{
		{by.Package, "out of packages"},
		{by.OnDemand, "out of packages on demand"},
		{by.Patch, "by patches"},
		{by.Mirror, "from other addresses"},
		{by.Memento, "from mementos"},
		{by.Kept, "from versions kept here"},
		{by.Harvest, "with the harvest"},
		{by.Adopted, adopted},
		{by.Request, "with a request each"},
		{by.Unchanged, "asked for and found unchanged"},
	} {
		if part.n > 0 {
			parts = append(parts, term.Thousands(part.n)+" "+part.what)
		}
	}
	if len(parts) == 0 || len(parts) == 1 && by.Request > 0 {
		return ""
	}
	return strings.Join(parts, ", ")
}

// localText says when the files of the mirror were last looked at, and what
// was found.
func localText(r *destination.Report) string {
	l := r.Local
	switch {
	case l == nil || l.CheckedAt.IsZero():
		return ""
	case !l.Checked:
		return "files of the mirror last checked " + l.CheckedAt.UTC().Format(time.RFC3339)
	}
	text := "files of the mirror checked " + l.CheckedAt.UTC().Format(time.RFC3339) + ": " + term.Thousands(l.Files)
	if l.Touched > 0 {
		text += ", " + term.Thousands(l.Touched) + " touched and found right"
	}
	if l.Damaged() == 0 {
		return text
	}
	text += ", " + term.Thousands(l.Missing) + " missing, " + term.Thousands(l.Changed) + " changed: "
	switch {
	case r.DryRun:
		return text + "would be repaired"
	case l.Repaired == l.Damaged():
		return text + "repaired"
	}
	return text + term.Thousands(l.Repaired) + " repaired"
}

// howText says what was read to determine the work.
func howText(mode, via string) string {
	where := map[string]string{
		destination.ViaList: " by Resource List", destination.ViaDump: " by Resource Dump",
		destination.ViaChangeList: " by Change List", destination.ViaChangeDump: " by Change Dump",
		discover.AtomPMH: " by Atom-PMH", discover.OAIPMH: " by OAI-PMH",
		destination.ViaNotification: " by notification", destination.ViaHistory: " by what the mirror was",
	}[via]
	switch mode {
	case destination.ModeBaseline:
		return "everything compared" + where
	case destination.ModeIncremental:
		return "only changes read" + where
	case destination.ModeNone:
		return "nothing to do"
	}
	return ""
}

// SetText is the line of a set that is one of several.
func SetText(r *destination.SetReport) string {
	text := r.Name + ": "
	switch {
	case r.Created+r.Updated+r.Deleted+r.Failed+r.Refused > 0:
		text += TallyText(r.Created, r.Updated, r.Deleted, r.Unchanged, r.Failed, r.Refused)
	case r.Error != "":
		text += r.Error
	default:
		text += "in step"
	}
	return text + "; " + term.Size(r.Bytes) + ", " + term.Elapsed(time.Duration(r.Elapsed*float64(time.Second)))
}

// ErrorText returns an error for a field of JSON, without the secrets of addresses in it; ""
// for nil.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return shown.WithoutSecrets(err.Error())
}

// summarizePast prints the first line of the result of a run with --at.
func summarizePast(io term.IO, r *destination.Report, err error) {
	head := ""
	switch {
	case r.DryRun:
		head = "dry run, nothing was done: to be "
	case err != nil:
		head = "not all of "
	}
	io.Printf("%s%s as it was at %s\n", head, r.Source, r.At.Format(time.RFC3339Nano))
	if !r.AsOf.IsZero() && !r.AsOf.Equal(r.At) {
		io.Printf("  it is as of %s: the state at the requested instant is not known\n", r.AsOf.Format(time.RFC3339Nano))
	}
	if n := r.Failed + r.Refused; n > 0 {
		io.Printf("  %s of that time are missing; what is here of them, if anything, is of another time\n", term.Count(n, "resource"))
	}
}

// KeptText says what a mirror has of versions.
func KeptText(k *destination.Kept) string {
	return term.Count(k.Versions, "version") + " kept, " + term.Size(k.Bytes) + "; --at goes back to " + k.Since.UTC().Format(time.RFC3339Nano)
}
