package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/auditing"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/intake"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"": 0, "1500": 1500, "500k": 500_000, "2M": 2_000_000, "1.5G": 1_500_000_000, "4KiB": 4096, "1MB": 1_000_000, "1 Mi": 1 << 20,
	} {
		if got, err := config.ParseSize(in); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"x", "-1", "1x", "k", "NaN", "1e30", "inf"} {
		if got, err := config.ParseSize(in); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", in, got)
		}
	}
}

func TestParseConfig(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("base_url: https://x.org/\nhash: sha-256\nwatch: false\nsets:\n- {name: a, from: 'dir:/a', change_list: {keep: 72h}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := time.Duration(c.Sets[0].ChangeList.Keep), 72*time.Hour; got != want {
		t.Errorf("keep = %s, want %s", got, want)
	}
	values := c.FlagValues()
	if got := fmt.Sprint(values["base-url"], values["hash"], values["watch"], values["listen"]); got != "[https://x.org/] [sha-256] [false] []" {
		t.Errorf("flag values = %s", got)
	}
	for _, tt := range []struct{ name, text, err, hint string }{
		{"misspelt", "base_ulr: x\n", `line 1: unknown key "base_ulr"`, "did you mean base_url?"},
		{"misspelt below", "sets:\n- from: dir:/a\n  form: x\n", `line 3: unknown key "form"`, "did you mean from?"},
		{"far from all", "zzzzzzzzzzzz: 1\n", `line 1: unknown key "zzzzzzzzzzzz"`, "known keys here: "},
		{"bad duration", "sets:\n- from: dir:/a\n  change_list: {keep: soon}\n", `"soon" is no duration`, ""},
		{"no from", "sets:\n- name: a\n", "set a: from is missing", ""},
		{"no scheme", "sets:\n- from: files\n", `"files" does not name the kind of origin`, "write dir:files"},
		{"unknown scheme", "sets:\n- from: dri:files\n", `unknown kind of origin "dri"`, "did you mean dir:?"},
		{"no place", "sets:\n- from: 'dir:'\n", `from "dir:" does not say where`, "write dir:PATH"},
		{"key of a set", "change_list: {keep: 1h}\n", `line 1: unknown key "change_list"`, "a key of a set"},
		{"not for it", "sets:\n- from: dir:/a\n  complete: true\n", "complete does not apply to a set from dir", ""},
		{"no relation", "sets:\n- from: dir:/a\n  links: [{href: 'http://x.org/'}]\n", "link 1: rel is missing", ""},
		{"no path", "sets:\n- name: a\n  from: dir:/a\n  mirrors: http://x.org/\n", "set a: mirror http://x.org/ does not say", "write http://x.org/{path}"},
		{"no list", "sets: yes\n", "line 1: want a list of sets", ""},
		{"no keys", "sets:\n- from: dir:/a\n  change_list: 5h\n", "line 3: want keys, such as {rotate: 24h", ""},
		{"no truth", "sets:\n- from: dir:/a\n  patches: maybe\n", "line 3: want true or false", ""},
		{"tabs", "\tlisten: a:1\n", "cannot start any token", "indent with blanks"},
		{"colon", "sets:\n- from: api:\n", "mapping values are not allowed", "put text in quotes"},
		{"no uri", "sets:\n- from: dir:/a\n  uri: here\n", `uri "here" is no absolute URI`, "as uri: https://"},
		{"a title of two lines", "sets:\n- from: dir:/a\n  title: \"A\\nB\"\n", "title has a line break", "write it on one line"},
		{"a long description", "sets:\n- from: dir:/a\n  description: " + strings.Repeat("x", 4001) + "\n", "description has 4001 characters: at most 4000 are shown", "shorten it"},
		{"empty set", "sets:\n-\n", "line 2: the set is empty", "- from: dir:"},
		{"no sets", "sets: []\n", "line 1: there are no sets", "- from: dir:"},
		{"bad size", "sets:\n- from: dir:/a\n  resource_dump: {package_size: big}\n", `"big" is no size`, ""},
		{"bad count", "sets:\n- from: dir:/a\n  resource_dump: {package_count: 0}\n", `"0" is no number above 0`, ""},
		{"no readers", "sets:\n- from: dir:/a\n  readers:\n", "line 3: readers names none", "without readers, the set is public"},
		{"an empty list of readers", "sets:\n- from: dir:/a\n  readers: []\n", "line 3: readers names none", ""},
		{"readers merged in", "sets:\n- &a {from: 'dir:/a', readers: x}\n- {name: b, <<: {readers: []}, from: 'dir:/b'}\n", "line 3: readers names none", ""},
		{"readers as keys", "sets:\n- from: dir:/a\n  readers: [{file: x}]\n", "line 3: want one value", ""},
		{"hubs of a public set", "sets:\n- from: dir:/a\n  notify_hubs: true\n", "notify_hubs applies to sets with readers", ""},
		{"two documents", "listen: a:1\n---\nlisten: b:2\n", "more than one document", ""},
		{"no yaml", "a: [", "line 1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(term.HintOf(err), tt.hint) {
				t.Errorf("error %v, hint %q; want %q, %q", err, term.HintOf(err), tt.err, tt.hint)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("base_url: https://x.org/\nsets:\n- {name: a, from: 'dir:/a'}\n"))
	f.Add([]byte("hash: [md5, sha-256]\nwatch: yes\nlisten: 1\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if c, err := config.Parse(text); err == nil {
			_ = c.FlagValues()
		}
	})
}

// TestPrecedence: a flag wins over the environment, that over the file, that
// over the default.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	for _, name := range []string{"in-flag", "in-env", "in-file", "nowhere"} {
		flags.String(name, "default", "")
	}
	many := flags.StringArray("many", nil, "")
	if err := flags.Parse([]string{"--in-flag=flag"}); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"LOCKSTEP_IN_FLAG": "env", "LOCKSTEP_IN_ENV": "env", "LOCKSTEP_MANY": "a\nb\n"}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	if err := config.FlagsFromEnvironment(flags, lookup); err != nil {
		t.Fatal(err)
	}
	file := map[string][]string{"in-flag": {"file"}, "in-env": {"file"}, "in-file": {"file"}, "many": {"c"}}
	if err := config.FlagsFromFile(flags, "f", file); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"in-flag": "flag", "in-env": "env", "in-file": "file", "nowhere": "default"} {
		if got, _ := flags.GetString(name); got != want {
			t.Errorf("--%s = %q, want %q", name, got, want)
		}
	}
	if got := fmt.Sprint(*many); got != "[a b]" {
		t.Errorf("--many = %s, want [a b]", got)
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{fmt.Errorf("x: %w", destination.ErrIncomplete), 1},
		{site.ErrUnreadable, 1},
		{term.Usagef("x"), 2},
		{fmt.Errorf("x: %w", auditing.ErrDifferences), 3},
		{fmt.Errorf("x: %w", destination.ErrRefused), 4},
		{&destination.RefusedError{Reason: "x"}, 4},
		{fmt.Errorf("scan: %w", &intake.EmptyError{}), 4},
		{term.WithHint(term.ErrInterrupted, "x"), 130},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}
