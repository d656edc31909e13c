package auditing

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// A findings writes the report of an audit: all findings, as they arrive. A
// file is renamed to its final name when it is complete.
type findings struct {
	form  findingForm // nil: no report is wanted
	out   *bufio.Writer
	file  *os.File // nil when it goes to stdout
	final string   // what the file is to be called; empty if it is no temporary one
	err   error
}

// A findingForm is a format for findings.
type findingForm interface {
	begin(w io.Writer) error
	add(w io.Writer, f *destination.Finding) error
	end(w io.Writer, r *result) error
}

// openFindings begins the report called name.
func openFindings(name, format string, io term.IO) (*findings, error) {
	if name == "" {
		return &findings{}, nil
	}
	if format == "" && name == "-" {
		format = "jsonl" // findings are written as they arrive
	}
	if format == "" {
		format = strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	}
	f := &findings{}
	switch format {
	case "json":
		f.form = &jsonFindings{}
	case "jsonl":
		f.form = jsonlFindings{}
	case "csv":
		f.form = csvFindings{}
	default:
		return nil, term.Usage(fmt.Errorf("--report %s: unknown format", name), "name a file that ends in .json, .jsonl or .csv, or say --format")
	}
	if name == "-" {
		f.out = bufio.NewWriter(io.Out)
	} else if err := f.create(name); err != nil {
		return nil, term.Usagef("open --report: %w", err)
	}
	f.err = f.form.begin(f.out)
	return f, nil
}

func (f *findings) create(name string) (err error) {
	if info, serr := os.Stat(name); serr == nil && !info.Mode().IsRegular() { // a pipe, or a device
		f.file, err = os.OpenFile(name, os.O_WRONLY, 0)
	} else {
		f.final = name
		f.file, err = os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", name, pe.Err) // the name of the temporary file says nothing
	}
	if err != nil {
		return err
	}
	f.out = bufio.NewWriter(f.file)
	return nil
}

// add writes a finding. close returns the first error.
func (f *findings) add(x *destination.Finding) {
	if f.form != nil && f.err == nil {
		f.err = f.form.add(f.out, x)
	}
}

// close completes the report of an audit with the result r. An audit that was
// interrupted has not found everything, and leaves no report.
func (f *findings) close(r *result, whole bool) error {
	if f.form == nil {
		return nil
	}
	if !whole {
		return f.drop()
	}
	if f.err == nil {
		f.err = f.form.end(f.out, r)
	}
	if f.err == nil {
		f.err = f.out.Flush()
	}
	if f.file == nil {
		return f.wrapped()
	}
	if f.err == nil && f.final != "" {
		f.err = errors.Join(f.file.Chmod(0o644), f.file.Sync())
	}
	if cerr := f.file.Close(); f.err == nil {
		f.err = cerr
	}
	if f.err == nil && f.final != "" {
		f.err = os.Rename(f.file.Name(), f.final)
	}
	if f.err != nil && f.final != "" {
		_ = os.Remove(f.file.Name()) // the first error says more
	}
	return f.wrapped()
}

func (f *findings) wrapped() error {
	if f.err == nil {
		return nil
	}
	return fmt.Errorf("write report: %w", f.err)
}

// drop discards a report.
func (f *findings) drop() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	if f.final != "" {
		err = errors.Join(err, os.Remove(f.file.Name()))
	}
	return err
}

// jsonlFindings writes one object a line.
type jsonlFindings struct{}

func (jsonlFindings) begin(io.Writer) error { return nil }

func (jsonlFindings) add(w io.Writer, f *destination.Finding) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(f)
}

func (jsonlFindings) end(io.Writer, *result) error { return nil }

// jsonFindings writes one object: that of --json, with all findings.
type jsonFindings struct{ some bool }

func (j *jsonFindings) begin(w io.Writer) error {
	_, err := io.WriteString(w, `{"findings":[`)
	return err
}

func (j *jsonFindings) add(w io.Writer, f *destination.Finding) error {
	sep := "\n"
	if j.some {
		sep = ","
	}
	j.some = true
	if _, err := io.WriteString(w, sep); err != nil {
		return err
	}
	return jsonlFindings{}.add(w, f)
}

func (j *jsonFindings) end(w io.Writer, r *result) error {
	rest := *r
	rest.Findings = nil
	text, err := json.Marshal(&rest)
	if err != nil {
		return err
	}
	_, werr := fmt.Fprintf(w, "],\n%s\n", text[1:])
	return werr
}

// csvFindings writes a table for spreadsheets.
type csvFindings struct{}

func (csvFindings) begin(w io.Writer) error {
	return writeRow(w, "kind", "set", "uri", "path", "expected_hash", "expected_length", "expected_lastmod",
		"found_hash", "found_length", "found_lastmod", "cause")
}

func (csvFindings) add(w io.Writer, f *destination.Finding) error {
	row := []string{string(f.Kind), f.Set, f.URI, f.Path}
	for _, x := range []*destination.Facts{f.Expected, f.Found} {
		row = append(row, facts(x)...)
	}
	return writeRow(w, append(row, f.Cause)...)
}

func (csvFindings) end(io.Writer, *result) error { return nil }

// facts returns the table cells for what is known of a content.
func facts(f *destination.Facts) []string {
	cells := make([]string, 3)
	if f == nil {
		return cells
	}
	cells[0] = f.Hash
	if f.Length != nil {
		cells[1] = strconv.FormatInt(*f.Length, 10)
	}
	if !f.Lastmod.IsZero() {
		cells[2] = f.Lastmod.UTC().Format(time.RFC3339Nano)
	}
	return cells
}

func writeRow(w io.Writer, cells ...string) error {
	for i, c := range cells {
		cells[i] = harmless(c)
	}
	c := csv.NewWriter(w)
	if err := c.Write(cells); err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

// harmless makes a cell one that no spreadsheet takes for a formula: names of
// files and URIs are a stranger's.
func harmless(cell string) string {
	if cell != "" && strings.IndexByte("=+-@\t\r", cell[0]) >= 0 {
		return "'" + cell
	}
	return cell
}
