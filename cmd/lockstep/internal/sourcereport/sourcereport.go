// Package sourcereport reports to people what a Source does with its resources: the
// progress of scans, what cannot be published, changes, dumps and hubs.
package sourcereport

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/source"
	"lockstep/websub"
)

// A Reporter prints what happens to the files of a site: progress while a scan
// runs, files that cannot be published, changes as they are published.
type Reporter struct {
	IO     term.IO
	Quiet  bool
	Beside bool // our documents are stored next to the files, as they should be: nothing to report

	OnPublished func(source.Report) // called after each publication; may be nil

	mu         sync.Mutex // guards what follows
	set        string
	now        intake.Report
	packing    bool  // the scan is over, dumps are being built
	adopted    int64 // the scan is over, versions are being kept: so many
	hubs       map[string]*hubState
	reportedAt time.Time        // when changes were last reported
	changes    map[string]int64 // published since, by set
	held       map[string]bool  // sets that were not published yet
	warned     map[string]bool  // texts of warnings about private files
}

// Event is the callback of an intake.
func (n *Reporter) Event(set string, e intake.Event) {
	switch e.Kind {
	case intake.EventProgress:
		n.mu.Lock()
		n.set, n.now = set, e.Report
		n.mu.Unlock()
	case intake.EventUnreadable:
		if isLine(e.Err) || strings.Contains(e.Path, "://") {
			n.IO.Errorf("warning: %s: %v\n", e.Path, e.Err)
			return
		}
		n.IO.Errorf("warning: not published as it is now: %q: %v\n", e.Path, e.Err)
	case intake.EventScanned:
		n.private(&e.Report.Private)
		if e.Err != nil {
			n.Warn(e.Err)
		}
	case intake.EventDegraded:
		n.IO.Errorf("warning: changes may be detected late: %v\n", e.Err)
	}
}

// Warn says what went wrong and is not the end.
func (n *Reporter) Warn(err error) {
	text := "warning: " + strings.ReplaceAll(err.Error(), "\n", "\n  ") + "\n"
	if hint := term.HintOf(err); hint != "" {
		text += "hint: " + hint + "\n"
	}
	n.IO.Errorf("%s", text)
}

// OfSet returns err, which kept a set from its first publication, with the name of the set if there
// are several, and with a remedy if its directory dir does not exist. dir is empty if the set is not
// a directory.
func OfSet(name string, sets int, dir string, err error) error {
	if sets < 2 {
		return err
	}
	if err = fmt.Errorf("set %s: %w", name, err); dir != "" && errors.Is(err, fs.ErrNotExist) {
		return term.WithHint(err, "correct from: of the set "+name+", or make the directory")
	}
	return err
}

// Line describes a scan under way.
func (n *Reporter) Line() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.packing {
		return "building dumps"
	}
	if n.adopted > 0 {
		return "keeping versions  " + term.Count(n.adopted, "resource")
	}
	if n.now.Files == 0 {
		return "scanning"
	}
	return "scanning  " + term.Count(n.now.Files, "file") + "  " + term.Size(n.now.Bytes) + " read"
}

// Done says how much a scan had examined when it ended; "" if that is not known.
func (n *Reporter) Done() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now.Files == 0 {
		return ""
	}
	return term.Count(n.now.Files, "file") + " examined, " + term.Size(n.now.Bytes) + " read"
}

// HiddenText says that files and directories were left out because their names begin with a
// dot.
func HiddenText(count int64) string {
	if count == 1 {
		return "skipped 1 hidden file or directory; --hidden publishes it"
	}
	return "skipped " + term.Thousands(count) + " hidden files and directories; --hidden publishes them"
}

// private warns, once, of what is published although other users may not read it.
func (n *Reporter) private(found *intake.Problems) {
	if found.Count == 0 {
		return
	}
	text := "a file or directory is"
	if found.Count > 1 {
		text = term.Thousands(found.Count) + " files and directories are"
	}
	text = fmt.Sprintf("%s published although other users of this machine may not read them: %q", text, found.First[0].Path)
	if found.Count > 1 {
		text += " is the first"
	}
	n.mu.Lock()
	again := n.warned[text]
	if len(n.warned) >= maxWarned {
		clear(n.warned)
	}
	if n.warned == nil {
		n.warned = make(map[string]bool)
	}
	n.warned[text] = true
	n.mu.Unlock()
	if !again {
		n.IO.Errorf("warning: %s\nhint: leave out with --exclude what is not for everyone, or let others read it\n", text)
	}
}

// maxWarned caps the warnings that are remembered.
const maxWarned = 1000

// Scanned says what a scan of a set passed over; away is whether the resources are elsewhere.
func (n *Reporter) Scanned(set string, away bool, r *intake.Report) {
	n.private(&r.Private)
	if r.Files == 0 && r.Excluded > 0 {
		n.IO.Errorf("warning: set %s: 0 of %s selected: --include and --exclude leave out all of them; they match paths below the root of the set, as pdf/** does\n", set, term.Count(r.Excluded, "name"))
	}
	skipped := &r.Skipped
	if n.Quiet {
		return
	}
	if away {
		n.listed(skipped)
		return
	}
	passed, names := skipped.Count, []string{}
	for _, p := range skipped.First {
		if n.Beside && (source.Reserved(p.Path) || source.Reserved(p.Path+"/")) {
			passed--
			continue
		}
		names = append(names, p.String())
	}
	if passed == 0 {
		return
	}
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "…")
	}
	n.IO.Notef("%s skipped: %s", term.Count(passed, "name"), strings.Join(names, ", "))
}

// listed says what a list of resources holds that is passed over.
func (n *Reporter) listed(skipped *intake.Problems) {
	for i, p := range skipped.First {
		if i == maxNamed {
			n.IO.Notef("and %s more", term.Thousands(skipped.Count-maxNamed))
			return
		}
		n.IO.Notef("%s: %v", p.Path, p.Err)
	}
}

// isLine reports whether an error is about a line of a file.
func isLine(err error) bool {
	_, ok := errors.AsType[*intake.LineError](err)
	return ok
}

// maxNamed is how many names a note lists.
const maxNamed = 5

// Published says what was published, if anything.
func (n *Reporter) Published(r source.Report) {
	if n.OnPublished != nil {
		n.OnPublished(r)
	}
	n.Holding(r)
	if n.Quiet {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changes == nil {
		n.changes = make(map[string]int64)
	}
	for _, set := range r.Sets {
		n.changes[set.Set] += set.Changes
	}
	if now := time.Now(); now.Sub(n.reportedAt) >= reportEvery {
		n.printPublished(r, now)
	}
}

// Holding prints which sets are published now for the first time, after they were held.
func (n *Reporter) Holding(r source.Report) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range r.Sets {
		set := &r.Sets[i]
		switch was := n.held[set.Set]; {
		case set.Held && n.held == nil:
			n.held = map[string]bool{set.Set: true}
		case set.Held:
			n.held[set.Set] = true
		case was && !n.Quiet:
			n.IO.Errorf("%s  published set %s for the first time, %s\n", term.Clock(time.Now()), set.Set, term.Count(set.Resources, "resource"))
			fallthrough
		case was:
			delete(n.held, set.Set)
		}
	}
}

// reportEvery is the shortest interval between reports of changes: people cannot
// read faster.
const reportEvery = time.Second

// printPublished prints how many changes were published since its last call. n.mu must be
// held.
func (n *Reporter) printPublished(r source.Report, now time.Time) {
	for _, set := range r.Sets {
		changes := n.changes[set.Set]
		if changes == 0 {
			continue
		}
		where := ""
		if len(r.Sets) > 1 {
			where = " of set " + set.Set
		}
		n.IO.Errorf("%s  published %s%s, %s in all\n", term.Clock(now), term.Count(changes, "change"), where, term.Count(set.Resources, "resource"))
		n.changes[set.Set], n.reportedAt = 0, now
	}
}

// Remark prints the notes, hints and warnings of a publication, if any.
func (n *Reporter) Remark(r source.Report) {
	for _, name := range r.Kept {
		n.IO.Notef("%s was not written by Lockstep and is left as it is", name)
	}
	if len(r.Lacking) > 0 && !n.Quiet {
		n.IO.Errorf("hint: for others to find the Source by robots.txt, add to it\n  %s\n", strings.Join(r.Lacking, "\n  "))
	}
	for _, set := range r.Sets {
		if set.Refused > 0 {
			n.IO.Errorf("warning: %s cannot be listed in a document and were left out; --log-level info names them\n", term.Count(set.Refused, "resource"))
		}
	}
}

// Dumping says that dumps are built from now on.
func (n *Reporter) Dumping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.packing = true
}

// Adopting says that versions are being kept of resources that had none: of so
// many; 0: that is over.
func (n *Reporter) Adopting(resources int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.adopted = resources
}

// Dumped prints what was written to the dumps, if anything was.
func (n *Reporter) Dumped(r source.DumpReport) {
	if n.Quiet {
		return
	}
	for _, set := range r.Sets {
		now := term.Clock(time.Now())
		if set.Dump {
			n.IO.Errorf("%s  resource dump of set %s: %s, of which %d new\n", now, set.Set, term.Count(set.Packages, "package"), set.Packages-set.Reused)
		}
		if set.Added > 0 {
			n.IO.Errorf("%s  change dump of set %s: %s added with %s\n", now, set.Set, term.Count(set.Added, "package"), term.Count(set.Changes, "change"))
		}
	}
}

// notifyWarnEvery is the interval between warnings that a hub does not accept
// notifications, while that lasts.
const notifyWarnEvery = time.Minute

// A hubState holds what was last reported about a hub.
type hubState struct {
	warned time.Time // zero: that all is well
	lost   int64     // refused since
}

// Notified reports the result of a notification where the state of the hub
// changed.
func (n *Reporter) Notified(t source.Notification) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hubs == nil {
		n.hubs = make(map[string]*hubState)
	}
	key := t.Set + " " + t.Hub
	h := n.hubs[key]
	if h == nil {
		h = &hubState{}
		n.hubs[key] = h
	}
	if t.Refused {
		h.lost++
	}
	switch {
	case t.Err == nil && !h.warned.IsZero():
		n.IO.Notef("the hub %s accepts notifications of set %s again", t.Hub, t.Set)
		*h = hubState{}
	case t.Err == nil:
	case time.Since(h.warned) < notifyWarnEvery:
	case t.Refused:
		h.warned = time.Now()
		n.IO.Errorf("warning: the hub refuses notifications of set %s, %d so far; their changes are in the Change List: %v\n", t.Set, h.lost, t.Err)
	default:
		h.warned = time.Now()
		err := fmt.Errorf("the hub did not accept a notification of set %s, which is sent again later: %w", t.Set, t.Err)
		if refused, ok := errors.AsType[*websub.RefusedError](t.Err); ok && refused.Correctable() {
			err = term.WithHint(err, "check the address of the hub, and that it knows the topic and the token (--hub-token)")
		}
		n.Warn(err)
	}
}
