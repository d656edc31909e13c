package trust_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/internal/trust"
)

// TestMakeTokens: a token is generated once, readable only by its owner.
func TestMakeTokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "admin-token")
	first, err := trust.MakeTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	token := first.All()[0]
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || len(token) != 64 {
		t.Errorf("%v, %v, a token of %d bytes, want mode 0600 and 64 bytes", info.Mode(), err, len(token))
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := trust.MakeTokens(path)
	if err != nil || again.All()[0] != token {
		t.Errorf("made again: %v, %v", again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the token: %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// TestTokensChange: a token is revoked without a restart, even if neither the
// size nor the time of the file shows the change.
func TestTokensChange(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\ntwo\n")
	tokens, err := trust.ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write("1ne\ntw0\n")
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{"one": false, "1ne": true, "": false, "1ne\ntw0": false} {
		if got, err := tokens.Allow(token); err != nil || got != want {
			t.Errorf("Allow(%q) = %v, %v, want %v", token, got, err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if ok, err := tokens.Allow("1ne"); ok || !errors.Is(err, trust.ErrTokens) {
		t.Errorf("without the file: %v, %v", ok, err)
	}
}

// TestBadTokenFiles refuses files without tokens: they would admit no request,
// or requests with an empty token.
func TestBadTokenFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "blank": " \n\n", "large": strings.Repeat("x", 64<<10+1)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := trust.ReadTokens(path); !errors.Is(err, trust.ErrTokens) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := trust.MakeTokens(path); !errors.Is(err, trust.ErrTokens) {
			t.Errorf("make %s: %v", name, err)
		}
	}
	if _, err := trust.ReadTokens(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
