package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/term"
)

// MirrorKeys are keys of a mirror that serve and publish do not have. At the top of the
// file they apply to all mirrors that do not have them.
type MirrorKeys struct {
	Set          StringList `yaml:"set"`
	Type         StringList `yaml:"type"`
	FilterFrom   flagValue  `yaml:"filter_from"`
	MinSize      flagValue  `yaml:"min_size"`
	MaxSize      flagValue  `yaml:"max_size"`
	MinAge       flagValue  `yaml:"min_age"`
	MaxAge       flagValue  `yaml:"max_age"`
	Since        flagValue  `yaml:"since"`
	Prefer       StringList `yaml:"prefer"`
	With         StringList `yaml:"with"`
	Map          StringList `yaml:"map"`
	AllowHost    StringList `yaml:"allow_host"`
	Via          flagValue  `yaml:"via"`
	AllVersions  flagValue  `yaml:"all_versions"`
	Delete       flagValue  `yaml:"delete"`
	MaxDelete    flagValue  `yaml:"max_delete"`
	Adopt        flagValue  `yaml:"adopt"`
	Replace      flagValue  `yaml:"replace"`
	CheckLocal   flagValue  `yaml:"check_local"`
	Verify       flagValue  `yaml:"verify"`
	KeepVersions flagValue  `yaml:"keep_versions"`
	Exec         flagValue  `yaml:"exec"`
	Channel      flagValue  `yaml:"channel"`
	Poll         flagValue  `yaml:"poll"`
	Check        flagValue  `yaml:"check"`
	Lease        flagValue  `yaml:"lease"`
}

// A Mirror is one of the mirrors that sync and follow keep in step. Each key but the first
// three corresponds to the flag of the same name.
type Mirror struct {
	Name   string `yaml:"name"` // default: made from Dest
	Source string `yaml:"source"`
	Dest   string `yaml:"dest"`

	State        flagValue  `yaml:"state"`
	Events       flagValue  `yaml:"events"`
	Include      StringList `yaml:"include"`
	Exclude      StringList `yaml:"exclude"`
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
	MirrorKeys   `yaml:",inline"`
}

// ofOneMirror are the flags of which a key at the top of the file is not that of all
// mirrors: it applies to the process, or to the Source that serve runs.
func ofOneMirror(flag string) bool { return flag == "state" || flag == "bandwidth" }

// ofSets are the flags that, in a file that also has sets, are those of the sets: their
// resources are selected by paths, and credentials are for the servers that have them.
func ofSets(flag string) bool {
	return slices.Contains([]string{"include", "exclude", "header", "bearer-token-file"}, flag)
}

// MirrorValues returns what the file says of a mirror as values of flags, by flag name:
// the keys of the mirror, and the keys at the top of the file that it does not have.
func (c *File) MirrorValues(m *Mirror) map[string][]string {
	values := map[string][]string{}
	top, own := keyValues(reflect.ValueOf(*c)), keyValues(reflect.ValueOf(*m))
	for key := range fieldsOf(reflect.TypeFor[Mirror]()) {
		flag := flagOf(key)
		given, ok := own[flag]
		if !ok && !ofOneMirror(flag) && (len(c.Sets) == 0 || !ofSets(flag)) {
			given = top[flag]
		}
		if len(given) > 0 {
			values[flag] = given
		}
	}
	return values
}

// ProcessValues returns what the file says, as values of flags, of a process that keeps
// mirrors in step. In a file that also has sets, what serve has too is about serve.
func (c *File) ProcessValues() map[string][]string {
	values, top := map[string][]string{}, keyValues(reflect.ValueOf(*c))
	flags := []string{"parallel", "bandwidth", "callback"}
	if len(c.Sets) == 0 {
		flags = append(flags, "listen", "admin", "admin-token-file")
	}
	for _, flag := range flags {
		if given := top[flag]; len(given) > 0 {
			values[flag] = given
		}
	}
	return values
}

// keyValues returns the values of the keys that a struct was read from, by flag name. An
// empty list that was written has no values.
func keyValues(v reflect.Value) map[string][]string {
	values := map[string][]string{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			for flag, vs := range keyValues(v.Field(i)) {
				values[flag] = vs
			}
			continue
		}
		switch v := v.Field(i).Interface().(type) {
		case flagValue:
			if v != "" {
				values[flagOf(f)] = []string{string(v)}
			}
		case StringList:
			if v != nil {
				values[flagOf(f)] = v
			}
		}
	}
	return values
}

// checkMirrorKeys refuses keys of mirrors at the top of a file without mirrors.
func (c *File) checkMirrorKeys() error {
	if len(c.Mirrors) > 0 {
		return nil
	}
	given := keyValues(reflect.ValueOf(c.MirrorKeys))
	for f := range fieldsOf(reflect.TypeFor[MirrorKeys]()) {
		if given[flagOf(f)] != nil {
			return term.WithHint(fmt.Errorf("%s: a key of mirrors, and there are none", f.Tag.Get("yaml")), "write mirrors as mirrors: [{source: https://example.org/, dest: mirror}]")
		}
	}
	return nil
}

// resolve makes relative paths begin at dir.
func (m *Mirror) resolve(dir string) {
	m.Dest = besideConfig(dir, m.Dest)
	for _, p := range []*flagValue{&m.State, &m.Events, &m.BearerFile, &m.CAFile, &m.FilterFrom} {
		*p = flagValue(besideConfig(dir, string(*p)))
	}
	m.Netrc = netrcBeside(dir, m.Netrc)
	file := besideConfig(dir, m.Source)
	if _, err := os.Stat(file); m.Source != "" && (err == nil || strings.HasPrefix(m.Source, ".")) {
		if m.Source = file; !filepath.IsAbs(file) {
			m.Source = "." + string(filepath.Separator) + file // not the name of a host
		}
	}
}

// netrcBeside makes a relative path of a netrc file begin at dir; "true" is that of the user.
func netrcBeside(dir string, netrc flagValue) flagValue {
	if netrc == "true" {
		return netrc
	}
	return flagValue(besideConfig(dir, string(netrc)))
}

// settleMirrors names the mirrors that have no name, and refuses what cannot be meant. The
// error names all that is wrong.
func (c *File) settleMirrors() error {
	var wrong []error
	by := map[string]int{}
	for i := range c.Mirrors {
		m := &c.Mirrors[i]
		if err := m.settle(); err != nil {
			wrong = append(wrong, fmt.Errorf("mirror %s: %w", m.label(i), err))
			continue
		}
		if first, ok := by[m.Name]; ok && samePlace(c.Mirrors[first].Dest, m.Dest) {
			wrong = append(wrong, fmt.Errorf("mirrors %d and %d have the same dest: %s", first+1, i+1, m.Dest))
			continue
		} else if ok {
			wrong = append(wrong, term.WithHint(fmt.Errorf("mirrors %d and %d (%s and %s) have the same name: %s", first+1, i+1, c.Mirrors[first].Dest, m.Dest, m.Name), "give one of them another, as name: "+m.Name+"-2"))
			continue
		}
		by[m.Name] = i
	}
	return errors.Join(wrong...)
}

// samePlace reports whether two values of dest are spellings of one place. Links are not followed.
func samePlace(a, b string) bool {
	return strings.TrimRight(filepath.ToSlash(a), "/") == strings.TrimRight(filepath.ToSlash(b), "/")
}

// label says which mirror of the file it is: by its name, or else its number.
func (m *Mirror) label(i int) string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprint(i + 1)
}

// settle names the mirror.
func (m *Mirror) settle() error {
	switch {
	case m.Source == "":
		return term.WithHint(errors.New("source is missing"), "write the address that it mirrors, as source: https://example.org/")
	case m.Dest == "":
		return term.WithHint(errors.New("dest is missing"), "write a directory or a bucket, as dest: mirror")
	case m.Name != "" && !isMirrorName(m.Name):
		return fmt.Errorf("name %q: want letters and digits, and within it also _, - and dots", m.Name)
	case m.Events == "-":
		return term.WithHint(errors.New("events: several mirrors cannot write them to stdout"), "give each mirror a file")
	case m.Name != "":
		return nil
	}
	dest := strings.TrimRight(filepath.ToSlash(m.Dest), "/")
	name := strings.Trim(notInMirrorName.ReplaceAllString(dest[strings.LastIndexByte(dest, '/')+1:], "-"), "-.")
	if !isMirrorName(name) {
		return term.WithHint(fmt.Errorf("no name can be made from dest %s", m.Dest), "give it one, as name: papers")
	}
	m.Name = name
	return nil
}

// isMirrorName reports whether name can be that of a mirror: it is an argument of commands,
// and part of paths.
func isMirrorName(name string) bool { return validName.MatchString(name) && name[0] != '-' }

// notInMirrorName are characters that a name made from a path does not take over.
var notInMirrorName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
