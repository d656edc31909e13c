// Package config reads the configuration file, the environment, and addresses of
// origins, and checks them. Flags overrule the
// environment, which overrules the file.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/readers"
	"lockstep/cmd/lockstep/internal/term"
)

// maxConfig caps a configuration file: a larger file is not one.
const maxConfig = 1 << 20

// A File is the configuration file: of serve and publish, and of sync and follow.
// Except for the sets and mirrors, each key corresponds to the flag of the same name; an environment variable
// overrides the key, and the flag itself overrides both. Flag values are kept
// as they are written: the flag parses them.
type File struct {
	Title        flagValue  `yaml:"title"`
	Description  flagValue  `yaml:"description"`
	BaseURL      flagValue  `yaml:"base_url"`
	Listen       flagValue  `yaml:"listen"`
	TLSCert      flagValue  `yaml:"tls_cert"`
	TLSKey       flagValue  `yaml:"tls_key"`
	State        flagValue  `yaml:"state"`
	Documents    flagValue  `yaml:"documents" flag:"out"` // directory or bucket the documents are written to
	Contents     flagValue  `yaml:"contents"`
	Gzip         flagValue  `yaml:"gzip"`
	Hash         StringList `yaml:"hash"`
	Include      StringList `yaml:"include"`
	Exclude      StringList `yaml:"exclude"`
	ScanInterval flagValue  `yaml:"scan_interval"`
	Hidden       flagValue  `yaml:"hidden"`
	AllowEmpty   flagValue  `yaml:"allow_empty"`
	Rehash       flagValue  `yaml:"rehash"`
	Watch        flagValue  `yaml:"watch"`
	Shared       flagValue  `yaml:"shared"`
	SharedAt     flagValue  `yaml:"shared_at"`
	Dump         flagValue  `yaml:"dump"`
	APITokenFile flagValue  `yaml:"api_token_file"`
	AtomPMH      flagValue  `yaml:"atom_pmh"`
	OAIPMH       flagValue  `yaml:"oai_pmh"`
	OAIAdmin     flagValue  `yaml:"oai_admin"`
	OAIName      flagValue  `yaml:"oai_name"`
	OAISets      flagValue  `yaml:"oai_sets"`
	Hub          StringList `yaml:"hub"`
	HubTokenFile flagValue  `yaml:"hub_token_file"`
	HubToken     StringList `yaml:"hub_token"` // URL=FILE
	Admin        flagValue  `yaml:"admin"`
	AdminFile    flagValue  `yaml:"admin_token_file"`
	TrustedProxy StringList `yaml:"trusted_proxy"`
	AccessLog    flagValue  `yaml:"access_log"`
	AccessFormat flagValue  `yaml:"access_log_format"`
	OnFailure    flagValue  `yaml:"on_failure"`
	PingURL      flagValue  `yaml:"ping_url"`
	FailureAfter flagValue  `yaml:"failure_after"`
	NotifyDelay  flagValue  `yaml:"notify_delay"`
	Header       StringList `yaml:"header"`
	BearerFile   flagValue  `yaml:"bearer_token_file"`
	Netrc        flagValue  `yaml:"netrc"`
	Proxy        flagValue  `yaml:"proxy"`
	CAFile       flagValue  `yaml:"ca_file"`
	Timeout      flagValue  `yaml:"timeout"`
	Retries      flagValue  `yaml:"retries"`
	Jobs         flagValue  `yaml:"jobs"`
	Rate         flagValue  `yaml:"rate"`
	Bandwidth    flagValue  `yaml:"bandwidth"`
	UserAgent    flagValue  `yaml:"user_agent"`
	AllowPrivate flagValue  `yaml:"allow_private"`
	Sets         []Set      `yaml:"sets"`

	// Of sync and follow.
	Parallel   flagValue `yaml:"parallel"`
	Callback   flagValue `yaml:"callback"`
	Mirrors    []Mirror  `yaml:"mirrors"`
	MirrorKeys `yaml:",inline"`

	// Of the hub embedded in serve: the flags of hub, after "hub.".
	HubLeaseMin         flagValue  `yaml:"hub.lease_min"`
	HubLeaseDefault     flagValue  `yaml:"hub.lease_default"`
	HubLeaseMax         flagValue  `yaml:"hub.lease_max"`
	HubRetryFirst       flagValue  `yaml:"hub.retry_first"`
	HubRetryMost        flagValue  `yaml:"hub.retry_most"`
	HubRetryFor         flagValue  `yaml:"hub.retry_for"`
	HubKeep             flagValue  `yaml:"hub.keep"`
	HubDeliveryTimeout  flagValue  `yaml:"hub.delivery_timeout"`
	HubMaxBody          flagValue  `yaml:"hub.max_body"`
	HubAllowPrivate     flagValue  `yaml:"hub.allow_private"`
	HubPublishTokenFile flagValue  `yaml:"hub.publish_token_file"`
	HubPublishOpen      flagValue  `yaml:"hub.publish_open"`
	HubPublishPrefix    StringList `yaml:"hub.publish_prefix"`
	HubCheckTopics      flagValue  `yaml:"hub.check_topics"`
	HubSignature        flagValue  `yaml:"hub.signature"`
	HubKeyFile          flagValue  `yaml:"hub.key_file"`
	HubCAFile           flagValue  `yaml:"hub.ca_file"`
}

// Read reads a configuration file. Relative paths in it are relative to the
// directory that contains it.
func Read(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, term.Usagef("read configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return File{}, term.Usagef("read configuration: %w", err)
	}
	if len(text) > maxConfig {
		return File{}, term.Usagef("read configuration %s: larger than %s", path, term.Size(maxConfig))
	}
	c, err := Parse(text)
	if err != nil {
		return c, term.Usage(fmt.Errorf("read configuration %s: %w", path, err), term.HintOf(err))
	}
	c.resolve(filepath.Dir(path))
	if err := c.settleMirrors(); err != nil {
		return c, term.Usage(fmt.Errorf("read configuration %s: %w", path, err), term.HintOf(err))
	}
	return c, nil
}

// resolve makes relative paths begin at dir.
func (c *File) resolve(dir string) {
	for _, p := range []*flagValue{&c.State, &c.TLSCert, &c.TLSKey, &c.Documents, &c.Contents, &c.APITokenFile, &c.HubTokenFile, &c.AdminFile, &c.HubPublishTokenFile, &c.HubKeyFile, &c.HubCAFile, &c.BearerFile, &c.CAFile, &c.AccessLog, &c.FilterFrom} {
		*p = flagValue(besideConfig(dir, string(*p)))
	}
	c.Netrc = netrcBeside(dir, c.Netrc)
	if path, ok := strings.CutPrefix(string(c.Admin), "unix:"); ok {
		c.Admin = flagValue("unix:" + besideConfig(dir, path))
	}
	for i, v := range c.HubToken {
		if t, err := ParseHubToken(v, c.Hub); err == nil { // a wrong one is refused later
			c.HubToken[i] = t.Hub + "=" + besideConfig(dir, t.File)
		}
	}
	for i := range c.Mirrors {
		c.Mirrors[i].resolve(dir)
	}
	for i := range c.Sets {
		c.Sets[i].Origin.resolve(dir)
		c.Sets[i].Store = besideConfig(dir, c.Sets[i].Store)
		for j, entry := range c.Sets[i].Readers {
			if path, ok := strings.CutPrefix(entry, readers.FilePrefix); ok {
				c.Sets[i].Readers[j] = readers.FilePrefix + besideConfig(dir, path)
			}
		}
		for j := range c.Sets[i].Upstreams {
			u := &c.Sets[i].Upstreams[j]
			u.Store = besideConfig(dir, u.Store)
		}
	}
}

func besideConfig(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	return filepath.Join(dir, path)
}

// Parse reads the text of a configuration file.
func Parse(text []byte) (File, error) {
	var c File
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, explainYAML(err)
	}
	if err := dec.Decode(&File{}); !errors.Is(err, io.EOF) {
		return c, errors.New("holds more than one document")
	}
	if err := c.checkLists(text); err != nil {
		return c, err
	}
	for i := range c.Sets {
		if err := c.Sets[i].check(); err != nil {
			return c, fmt.Errorf("set %s: %w", c.Sets[i].Label(i), err)
		}
	}
	return c, nil
}

// checkLists refuses sets and mirrors of which nothing is said: the library passes them
// over in silence, and without any set the working directory would be published. It also
// refuses keys that apply to none.
func (c *File) checkLists(text []byte) error {
	var file struct {
		Sets    yaml.Node `yaml:"sets"`
		Mirrors yaml.Node `yaml:"mirrors"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return explainYAML(err)
	}
	if err := checkList(&file.Sets, "set", "write a set as - from: dir:/srv/files"); err != nil {
		return err
	}
	sets := &file.Sets
	if sets.Kind == yaml.AliasNode {
		sets = sets.Alias
	}
	for _, set := range sets.Content {
		if err := checkReaders(set); err != nil {
			return err
		}
	}
	if err := checkList(&file.Mirrors, "mirror", "write a mirror as - {source: https://example.org/, dest: mirror}"); err != nil {
		return err
	}
	return c.checkMirrorKeys()
}

// checkList refuses an empty list, and one with an empty item.
func checkList(list *yaml.Node, what, hint string) error {
	if list.Kind == yaml.AliasNode {
		list = list.Alias
	}
	if list.Kind != 0 && len(list.Content) == 0 {
		return term.WithHint(fmt.Errorf("line %d: there are no %ss", list.Line, what), hint)
	}
	for _, item := range list.Content {
		if item.Tag == "!!null" {
			return term.WithHint(fmt.Errorf("line %d: the %s is empty", item.Line, what), hint)
		}
	}
	return nil
}

// checkReaders refuses a set with the key readers and no reader, which would be public.
func checkReaders(set *yaml.Node) error {
	if set.Kind == yaml.AliasNode {
		set = set.Alias
	}
	for i := 0; i+1 < len(set.Content) && set.Kind == yaml.MappingNode; i += 2 {
		key, value := set.Content[i], set.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if key.Tag == "!!merge" {
			if err := checkReaders(value); err != nil {
				return err
			}
		}
		if key.Value != "readers" {
			continue
		}
		const hint = "write readers: file:PATH, or the line that lockstep reader NAME prints; without readers, the set is public"
		if value.Tag == "!!null" || value.Kind == yaml.SequenceNode && len(value.Content) == 0 {
			return term.WithHint(fmt.Errorf("line %d: readers names none", key.Line), hint)
		}
	}
	return nil
}

// FlagValues returns what the file says as values of flags, by flag name.
func (c File) FlagValues() map[string][]string {
	values := map[string][]string{}
	for v, i := reflect.ValueOf(c), 0; i < v.NumField(); i++ {
		f := v.Type().Field(i)
		name := flagOf(f)
		switch v := v.Field(i).Interface().(type) {
		case flagValue:
			if v != "" {
				values[name] = []string{string(v)}
			}
		case StringList:
			if len(v) > 0 && !slices.Contains(v, "") {
				values[name] = v
			}
		}
	}
	return values
}

// flagOf returns the name of the flag that corresponds to a field of the file.
func flagOf(f reflect.StructField) string {
	if name := f.Tag.Get("flag"); name != "" {
		return name
	}
	return strings.NewReplacer("_", "-", ".", "-").Replace(f.Tag.Get("yaml"))
}

// configKey returns the key that corresponds to a flag.
func configKey(flag string) string {
	for f := range fieldsOf(reflect.TypeFor[File]()) {
		if flagOf(f) == flag {
			return f.Tag.Get("yaml")
		}
	}
	return strings.ReplaceAll(flag, "-", "_")
}

// configKeys returns the keys of each kind of mapping the file can have, by
// the name of the type it is read into.
func configKeys() map[string][]string {
	keys := map[string][]string{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || keys[t.String()] != nil {
			return
		}
		for f := range fieldsOf(t) {
			keys[t.String()] = append(keys[t.String()], f.Tag.Get("yaml"))
			visit(f.Type)
		}
	}
	visit(reflect.TypeFor[File]())
	return keys
}

// fieldsOf yields the fields of a struct that are read from a mapping.
func fieldsOf(t reflect.Type) iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			switch key := f.Tag.Get("yaml"); key {
			case "":
			case ",inline":
				for inner := range fieldsOf(f.Type) {
					if !yield(inner) {
						return
					}
				}
			default:
				if !yield(f) {
					return
				}
			}
		}
	}
}

// A flagValue is one value, as a flag would be given it.
type flagValue string

// UnmarshalYAML implements [yaml.Unmarshaler].
func (v *flagValue) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: want one value", n.Line)
	}
	if n.Tag != "!!null" {
		*v = flagValue(n.Value)
	}
	return nil
}

// A StringList is written as a YAML list, or as one string.
type StringList []string

// UnmarshalYAML implements [yaml.Unmarshaler].
func (l *StringList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		*l = []string{n.Value}
		return nil
	}
	return n.Decode((*[]string)(l))
}

// A countValue is a number of things, above 0.
type countValue int

// UnmarshalYAML implements [yaml.Unmarshaler].
func (c *countValue) UnmarshalYAML(n *yaml.Node) error {
	v, err := strconv.Atoi(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("line %d: %q is no number above 0", n.Line, n.Value)
	}
	*c = countValue(v)
	return nil
}

// A byteSize is written as 1500, 500k, 1GiB.
type byteSize int64

// UnmarshalYAML implements [yaml.Unmarshaler].
func (b *byteSize) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseSize(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("line %d: %q is no size; write 1GiB or 500M", n.Line, n.Value)
	}
	*b = byteSize(v)
	return nil
}

var errBadSize = errors.New("want a number of bytes, as 500k or 2M")

// ParseSize reads a number of bytes: 1500, 500k, 2M, 1.5G, each optionally
// with a B; multiples are of 1000, with i (Ki, Mi, Gi) of 1024.
func ParseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	text := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "b")
	base := 1000.0
	if t, ok := strings.CutSuffix(text, "i"); ok {
		text, base = t, 1024
	}
	unit := 1.0
	for i, suffix := range []string{"k", "m", "g", "t"} {
		if t, ok := strings.CutSuffix(text, suffix); ok {
			text = t
			for range i + 1 {
				unit *= base
			}
			break
		}
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f < 0 || f*unit > 1<<62 || f != f {
		return 0, errBadSize
	}
	return int64(f * unit), nil
}
