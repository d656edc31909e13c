package hubserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestKey makes keys, several at a time: all get the one that is kept, which
// only its owner can read.
func TestKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.key")
	keys := make([][]byte, 8)
	var makers sync.WaitGroup
	for i := range keys {
		makers.Go(func() {
			var err error
			if keys[i], err = makeKey(path); err != nil {
				t.Errorf("makeKey: %v", err)
			}
		})
	}
	makers.Wait()
	kept, err := readKey(path)
	if err != nil || len(kept) != KeySize {
		t.Fatalf("readKey: %x, %v", kept, err)
	}
	for _, k := range keys {
		if !bytes.Equal(k, kept) {
			t.Errorf("made %x, kept %x", k, kept)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v, %v", info.Mode(), err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("left beside it: %v, %v", names, err)
	}
}

// TestReadKey reads keys as people make them.
func TestReadKey(t *testing.T) {
	t.Parallel()
	raw := strings.Repeat("\x01\xff", KeySize/2)
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"bytes":          {raw, true},
		"digits":         {strings.Repeat("01ff", KeySize/2), true},
		"with line feed": {strings.Repeat("01FF", KeySize/2) + "\r\n", true},
		"empty":          {"", false},
		"short":          {strings.Repeat("01ff", KeySize/2-1), false},
		"long":           {strings.Repeat("01ff", KeySize), false},
		"no digits":      {strings.Repeat("zz", KeySize), false},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := readKey(path)
		if tt.want != (err == nil) || tt.want && string(key) != raw {
			t.Errorf("%s: %x, %v", name, key, err)
		}
	}
}
