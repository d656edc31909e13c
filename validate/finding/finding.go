// Package finding has the rules that documents are checked against, and the report
// of a check.
//
// The rules are data: [Rules] lists each with the ID of its requirement, its level
// and its text. A [Finding] is one violation of one rule, and a [Report] has the
// findings of a run. Findings are not errors: an error means that something could
// not be checked.
//
// A check adds its findings to a [Collector], through a [Place] for each document.
// The Collector removes duplicates, limits how many similar findings are kept, and
// can hold findings back until it is certain that they count.
package finding

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// A Level is the severity of a Finding.
type Level string

// The levels: what a standard forbids (MUST), what it advises against (SHOULD),
// and what is a rule of this project alone.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Advice  Level = "advice"
)

// A Finding is one place that breaks one rule.
type Finding struct {
	Rule     string `json:"rule"`  // ID of the requirement, as in [Rules]
	Level    Level  `json:"level"` // of the rule
	Document string `json:"document"`
	Location string `json:"location"` // line:column, "root", an entry, a name in a package, a header; empty for the whole
	Message  string `json:"message"`
	Section  string `json:"section"` // document and section that the rule follows from
}

// String returns the finding in one line.
func (f Finding) String() string {
	at := f.Document
	if f.Location != "" {
		at += ": " + f.Location
	}
	s := fmt.Sprintf("%s %s: %s: %s", f.Rule, f.Level, at, f.Message)
	if f.Section != "" {
		s += " [" + f.Section + "]"
	}
	return s
}

// Findings are those of a run, in the order they were found.
type Findings []Finding

// ErrFindings is what [Findings.Err] wraps.
var ErrFindings = errors.New("documents break rules")

// Err returns an error if there is a finding of level Error, or nil.
func (fs Findings) Err() error {
	n := 0
	first := ""
	for _, f := range fs {
		if f.Level == Error {
			if n++; n == 1 {
				first = f.String()
			}
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: %s", ErrFindings, first)
	}
	return fmt.Errorf("%w: %s (and %d more)", ErrFindings, first, n-1)
}

// A Report is the result of a run.
type Report struct {
	Documents int      `json:"documents"`       // read, including manifests
	Entries   int64    `json:"entries"`         // in them
	Packages  int      `json:"packages"`        // checked
	Resources int      `json:"resources"`       // including bitstreams in packages, whose bytes were compared
	Links     int      `json:"links,omitempty"` // alternate links of feeds that were followed
	Unseen    int      `json:"unseen"`          // addresses that could not be checked from here
	Seed      uint64   `json:"seed"`            // chooses the same resources again
	Errors    int      `json:"errors"`
	Warnings  int      `json:"warnings"`
	Advice    int      `json:"advice"`  // counted even if not requested
	Omitted   int      `json:"omitted"` // findings that were counted but are not in Findings
	Findings  Findings `json:"findings"`
}

const (
	// maxAlike caps the findings of one rule in one document: a list may have the
	// same error in every entry.
	maxAlike = 20
	// maxFindings caps those kept of a run: memory filled by a hostile Source.
	maxFindings = 10_000
	// maxMessage caps how much of a text of a Source goes into one finding.
	maxMessage = 1000
)

// A Collector gathers the findings of a run or, held back, of a part of it.
type Collector struct {
	Report *Report

	strict    bool
	advice    bool              // advice is requested
	final     map[string]string // final addresses of documents, by the addresses that redirect to them
	seen      map[Finding]bool  // so that a document that is read again is reported once
	onFinding func(Finding)     // may be nil
	alike     map[[2]string]int
	pending   *[]Finding // findings that are held back; nil if none are
	beyond    [3]int     // errors, warnings and advice held back that are only counted
}

// NewCollector returns a Collector with an empty Report. If strict, warnings are
// filed as errors; unless advice, findings of that level are counted only. It
// calls onFinding, which may be nil, with each finding of the Report.
func NewCollector(seed uint64, strict, advice bool, onFinding func(Finding)) *Collector {
	return &Collector{Report: &Report{Findings: Findings{}, Seed: seed}, strict: strict, advice: advice, seen: make(map[Finding]bool), onFinding: onFinding, alike: make(map[[2]string]int)}
}

// NewQuiet returns a Collector for reading without a report.
func NewQuiet() *Collector {
	return &Collector{Report: &Report{}, alike: make(map[[2]string]int)}
}

// In returns a Place that files findings about a document.
func (c *Collector) In(doc string) Place { return Place{c, doc} }

// Add files a finding.
func (c *Collector) Add(f Finding) {
	if c.pending != nil {
		switch {
		case len(*c.pending) < maxFindings:
			*c.pending = append(*c.pending, f)
		case f.Level == Error, f.Level == Warning && c.strict:
			c.beyond[0]++
		case f.Level == Warning:
			c.beyond[1]++
		default:
			c.beyond[2]++
		}
		return
	}
	f.Section = sections[row{f.Rule, f.Level}]
	if c.strict && f.Level == Warning {
		f.Level = Error
	}
	f.Document, f.Location, f.Message = Printable(f.Document), Printable(f.Location), Printable(f.Message)
	if c.isKnown(f) {
		return
	}
	switch f.Level {
	case Error:
		c.Report.Errors++
	case Warning:
		c.Report.Warnings++
	default:
		if c.Report.Advice++; !c.advice {
			return
		}
	}
	if len(c.Report.Findings) >= maxFindings {
		c.Report.Omitted++
		return
	}
	key := [2]string{f.Rule, f.Document}
	if c.alike[key]++; c.alike[key] > maxAlike {
		c.Report.Omitted++
		return
	}
	c.Report.Findings = append(c.Report.Findings, f)
	if c.onFinding != nil {
		c.onFinding(f)
	}
}

// isKnown reports whether f was filed before: the same document may be reached
// in several ways.
func (c *Collector) isKnown(f Finding) bool {
	if c.seen == nil {
		return false
	}
	if to := c.final[f.Document]; to != "" {
		f.Document = to
	}
	if c.seen[f] {
		return true
	}
	if len(c.seen) < maxFindings {
		c.seen[f] = true
	}
	return false
}

// Alias records that a redirect leads from one address to another, so that a
// document that is reached through both is reported once.
func (c *Collector) Alias(from, to string) {
	if c.seen == nil || from == to || len(c.final) >= maxFindings {
		return
	}
	if c.final == nil {
		c.final = make(map[string]string)
	}
	c.final[Printable(from)] = Printable(to)
}

// Hold holds findings back until [Collector.Release] or [Collector.Drop].
func (c *Collector) Hold() {
	if c.pending == nil {
		c.pending = new([]Finding)
	}
}

// Release files the findings that Hold held back.
func (c *Collector) Release() {
	beyond := c.beyond
	waiting := c.Drop()
	for _, f := range waiting {
		c.Add(f)
	}
	c.Report.Errors += beyond[0]
	c.Report.Warnings += beyond[1]
	c.Report.Advice += beyond[2]
	c.Report.Omitted += beyond[0] + beyond[1]
}

// IsWaiting reports whether a finding is held back.
func (c *Collector) IsWaiting() bool { return c.pending != nil && len(*c.pending) > 0 }

// Drop discards the findings that Hold held back, and returns them.
func (c *Collector) Drop() []Finding {
	c.beyond = [3]int{}
	if c.pending == nil {
		return nil
	}
	waiting := *c.pending
	c.pending = nil
	return waiting
}

// A Place files findings about one document.
type Place struct {
	collector *Collector
	doc       string
}

// Add files a finding about the document.
func (p Place) Add(rule string, level Level, location, message string) {
	p.collector.Add(Finding{Rule: rule, Level: level, Document: p.doc, Location: location, Message: message})
}

// Errorf files a finding of level Error.
func (p Place) Errorf(rule, location, format string, args ...any) {
	p.Add(rule, Error, location, fmt.Sprintf(format, args...))
}

// Warnf files a finding of level Warning.
func (p Place) Warnf(rule, location, format string, args ...any) {
	p.Add(rule, Warning, location, fmt.Sprintf(format, args...))
}

// Advisef files a finding of level Advice.
func (p Place) Advisef(rule, location, format string, args ...any) {
	p.Add(rule, Advice, location, fmt.Sprintf(format, args...))
}

// Printable converts text of a Source for use in one line of a message.
func Printable(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage] + "…"
	}
	plain := true
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Position returns the location of a line and column.
func Position(line, column int) string { return fmt.Sprintf("%d:%d", line, column) }

// NotOne describes the number of elements where one is expected.
func NotOne(n int, name string) string {
	if n == 0 {
		return "no " + name
	}
	return fmt.Sprintf("%s %d times, where one belongs", name, n)
}
