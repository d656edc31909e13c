package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestKeysAreDescribed: the guides that list the keys at the top of a configuration file have
// all of them.
func TestKeysAreDescribed(t *testing.T) {
	t.Parallel()
	text := ""
	for _, name := range []string{"configuration.md", "mirrors.md"} {
		guide, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "guide", name))
		if err != nil {
			t.Fatal(err)
		}
		text += string(guide)
	}
	for f := range fieldsOf(reflect.TypeFor[File]()) {
		if key := f.Tag.Get("yaml"); !strings.Contains(text, "`"+key+"`") {
			t.Errorf("%s is not described", key)
		}
	}
}
