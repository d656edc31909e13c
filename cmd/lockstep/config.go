package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxConfig caps a configuration file: what is larger is some other file.
const maxConfig = 1 << 20

// A fileConfig is the configuration file of serve and publish. What it says is
// overruled by the environment, and that by flags.
type fileConfig struct {
	BaseURL      string      `yaml:"base_url"`
	Listen       string      `yaml:"listen"`
	State        string      `yaml:"state"`
	Documents    string      `yaml:"documents"` // directory the documents are written to
	Hash         stringList  `yaml:"hash"`
	Include      stringList  `yaml:"include"`
	Exclude      stringList  `yaml:"exclude"`
	ScanInterval string      `yaml:"scan_interval"`
	Watch        *bool       `yaml:"watch"`
	Sets         []setConfig `yaml:"sets"`
}

// A setConfig is one set of resources.
type setConfig struct {
	Name        string           `yaml:"name"`
	Description string           `yaml:"description"` // URI of information about the set
	From        string           `yaml:"from"`        // dir:PATH
	URI         string           `yaml:"uri"`         // what the URIs of its resources begin with
	ChangeList  changeListConfig `yaml:"change_list"`
}

type changeListConfig struct {
	Keep duration `yaml:"keep"`
}

// A stringList is written as a YAML list, or as one string.
type stringList []string

// UnmarshalYAML implements [yaml.Unmarshaler].
func (l *stringList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*l = []string{n.Value}
		return nil
	}
	return n.Decode((*[]string)(l))
}

// A duration is written as Go does: 720h, 90s.
type duration time.Duration

// UnmarshalYAML implements [yaml.Unmarshaler].
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is no duration; write 720h or 90s", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// configKeys are all keys the file can have, for hints.
var configKeys = []string{
	"base_url", "listen", "state", "documents", "hash", "include", "exclude", "scan_interval", "watch", "sets",
	"name", "description", "from", "uri", "change_list", "keep",
}

// readConfig reads a configuration file. Relative paths in it are relative to
// the directory it stands in.
func readConfig(path string) (fileConfig, error) {
	f, err := os.Open(path)
	if err != nil {
		return fileConfig{}, usagef("read configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return fileConfig{}, usagef("read configuration: %w", err)
	}
	if len(text) > maxConfig {
		return fileConfig{}, usagef("read configuration %s: larger than %s", path, size(maxConfig))
	}
	c, err := parseConfig(text)
	if err != nil {
		return c, usageError{err: fmt.Errorf("read configuration %s: %w", path, err), hint: hintOf(err)}
	}
	dir := filepath.Dir(path)
	for _, p := range []*string{&c.State, &c.Documents} {
		*p = besideConfig(dir, *p)
	}
	for i := range c.Sets {
		if p, ok := strings.CutPrefix(c.Sets[i].From, "dir:"); ok {
			c.Sets[i].From = "dir:" + besideConfig(dir, p)
		}
	}
	return c, nil
}

func besideConfig(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	return filepath.Join(dir, path)
}

// parseConfig reads the text of a configuration file.
func parseConfig(text []byte) (fileConfig, error) {
	var c fileConfig
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, explainYAML(err)
	}
	if err := dec.Decode(&fileConfig{}); !errors.Is(err, io.EOF) {
		return c, errors.New("holds more than one document")
	}
	for i, s := range c.Sets {
		if err := s.check(); err != nil {
			return c, fmt.Errorf("set %d: %w", i+1, err)
		}
	}
	return c, nil
}

func (s setConfig) check() error {
	switch dir, ok := strings.CutPrefix(s.From, "dir:"); {
	case s.From == "":
		return errors.New("from is missing; write from: dir:/path/of/the/files")
	case !ok:
		return fmt.Errorf("from %q: this version reads directories; write from: dir:/path/of/the/files", s.From)
	case dir == "":
		return errors.New("from names no directory")
	}
	return nil
}

var unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type `)

// explainYAML puts what the YAML library says of the first mistake into our
// words: unknown keys name the nearest known one.
func explainYAML(err error) error {
	te, ok := errors.AsType[*yaml.TypeError](err)
	if !ok || len(te.Errors) == 0 {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	m := unknownField.FindStringSubmatch(te.Errors[0])
	if m == nil {
		return errors.New(te.Errors[0])
	}
	line, _ := strconv.Atoi(m[1]) // \d+
	err = fmt.Errorf("line %d: unknown key %q", line, m[2])
	if near := nearest(m[2], configKeys); near != "" {
		return withHint(err, "did you mean "+near+"?")
	}
	return withHint(err, "known keys: "+strings.Join(configKeys, ", "))
}

// nearest returns the word most like s, or "" if none is much like it.
func nearest(s string, words []string) string {
	best, distance := "", 1+max(2, len(s)/3)
	for _, w := range words {
		if d := editDistance(strings.ToLower(s), w); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements that turn a
// into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// flagValues returns what the file says as values of flags, by flag name.
func (c fileConfig) flagValues() map[string][]string {
	values := map[string][]string{}
	put := func(name string, vs ...string) {
		if len(vs) > 0 && !slices.Contains(vs, "") {
			values[name] = vs
		}
	}
	put("base-url", c.BaseURL)
	put("listen", c.Listen)
	put("state", c.State)
	put("out", c.Documents)
	put("hash", strings.Join(c.Hash, ","))
	put("include", c.Include...)
	put("exclude", c.Exclude...)
	put("scan-interval", c.ScanInterval)
	if c.Watch != nil {
		put("watch", strconv.FormatBool(*c.Watch))
	}
	return values
}
