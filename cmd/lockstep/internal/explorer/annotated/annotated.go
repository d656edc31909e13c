// Package annotated shows the XML of a document line by line, with what the validator
// has found beside the lines that it concerns.
package annotated

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	"lockstep/cmd/lockstep/internal/explorer/pretty"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/fetch"
	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

const (
	// maxDocument caps a document that is shown, uncompressed: it limits the time that
	// a bomb takes, and the space in the directory for temporary files.
	maxDocument = 256 << 20
	// maxBeside is how many findings are shown beside one line.
	maxBeside = 10

	// Finding is the Type of lines with findings.
	Finding = "finding"
	// Whole is the name of findings about the document as a whole.
	Whole = "document"
)

// A Document is the Origin of the lines of a document. The URI of a row is the text of
// the line, its Length the indentation, its Kind the line and column in the document.
type Document struct {
	Address string
	Open    func(ctx context.Context) (io.ReadCloser, error)
	Dir     string // for a temporary file
}

// Read implements reading.Origin.
func (o *Document) Read(ctx context.Context, _ string, add func(*spool.Row) error) (reading.Result, error) {
	result := reading.Result{Title: "XML", Of: reading.Lines}
	f, err := o.copy(ctx)
	if err != nil {
		return result, err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // it may be removed already
	}()
	placed, err := o.check(ctx, f, &result)
	if err != nil {
		return result, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return result, err
	}
	return result, addLines(f, placed, add)
}

// copy stores the document in a temporary file, decompressed.
func (o *Document) copy(ctx context.Context) (*os.File, error) {
	body, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	in := bufio.NewReader(body)
	var text io.Reader = in
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		if text, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("read %s: %w", fetch.Printable(o.Address), err)
		}
	}
	f, err := os.CreateTemp(o.Dir, "lockstep-explore-*.xml")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file: %w", err)
	}
	_ = os.Remove(f.Name()) // where an open file can be removed
	n, err := io.Copy(f, io.LimitReader(text, maxDocument+1))
	if err == nil && n > maxDocument {
		err = fmt.Errorf("read %s: %w: more than %d MiB", fetch.Printable(o.Address), fetch.ErrTooLarge, maxDocument>>20)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// A placed finding has a position in the document.
type placed struct {
	line, column int
	finding.Finding
}

// check validates the document alone, and returns the findings that have positions, in
// their order. Those about the whole document are facts of the result.
func (o *Document) check(ctx context.Context, f *os.File, result *reading.Result) ([]placed, error) {
	report, err := o.validate(ctx, f)
	if err != nil {
		return nil, err
	}
	fact := func(name, value string) { result.Facts = append(result.Facts, spool.Fact{Name: name, Value: value}) }
	fact("errors", strconv.Itoa(report.Errors))
	fact("warnings", strconv.Itoa(report.Warnings))
	var at []placed
	for _, one := range report.Findings {
		if line, column, ok := position(one.Location); ok {
			at = append(at, placed{line, column, one})
			continue
		}
		text := string(one.Level) + " " + one.Rule + ": " + one.Message
		if one.Location != "" {
			text = one.Location + ": " + text
		}
		fact(Whole, text)
	}
	if report.Omitted > 0 {
		fact(Whole, strconv.Itoa(report.Omitted)+" more findings of the same kinds")
	}
	sort.SliceStable(at, func(i, j int) bool {
		a, b := &at[i], &at[j]
		return a.line < b.line || a.line == b.line && a.column < b.column
	})
	return at, nil
}

func (o *Document) validate(ctx context.Context, f *os.File) (*finding.Report, error) {
	head := make([]byte, 1024)
	n, _ := f.ReadAt(head, 0) // a shorter document has a shorter head
	options := validate.Options{Single: true, Advice: true}
	whole := io.NewSectionReader(f, 0, 1<<62)
	if bytes.Contains(head[:n], []byte("http://www.w3.org/2005/Atom")) {
		open := func(_ context.Context, r opener.Request) (*opener.Answer, error) {
			if r.URI != o.Address {
				return nil, opener.ErrUnseen
			}
			return &opener.Answer{URI: r.URI, Size: -1, Body: io.NopCloser(io.NewSectionReader(f, 0, 1<<62))}, nil
		}
		return validate.Feed(ctx, open, o.Address, options)
	}
	if bytes.Contains(head[:n], []byte("http://www.openarchives.org/OAI/2.0/")) {
		return &finding.Report{}, nil // one answer of a repository is not checked by itself
	}
	return validate.Document(ctx, whole, o.Address, options)
}

// position reads the location of a finding.
func position(location string) (line, column int, ok bool) {
	l, c, found := strings.Cut(location, ":")
	if !found {
		return 0, 0, false
	}
	line, lerr := strconv.Atoi(l)
	column, cerr := strconv.Atoi(c)
	return line, column, errors.Join(lerr, cerr) == nil
}

// addLines adds the lines of a document. A finding belongs to the last line that begins
// before its position.
func addLines(r io.Reader, at []placed, add func(*spool.Row) error) error {
	var held *spool.Row
	for line := range pretty.Lines(r) {
		if held != nil {
			at = attach(held, at, func(p *placed) bool {
				return p.line < line.Line || p.line == line.Line && p.column <= line.Column
			})
			if err := add(held); err != nil {
				return err
			}
		}
		held = &spool.Row{URI: line.Text, Length: int64(line.Indent), Kind: strconv.Itoa(line.Line) + ":" + strconv.Itoa(line.Column)}
	}
	if held == nil {
		return nil
	}
	attach(held, at, func(*placed) bool { return true })
	return add(held)
}

// attach adds the first findings to a row, as long as they belong to it, and returns the
// others.
func attach(row *spool.Row, at []placed, belongs func(*placed) bool) []placed {
	for len(at) > 0 && belongs(&at[0]) {
		if row.Type = Finding; len(row.Detail.Facts) < maxBeside {
			row.Detail.Facts = append(row.Detail.Facts, spool.Fact{Name: string(at[0].Level) + " " + at[0].Rule, Value: at[0].Message + " (" + at[0].Section + ")"})
		}
		at = at[1:]
	}
	return at
}
