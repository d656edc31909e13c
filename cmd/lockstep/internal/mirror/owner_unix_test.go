//go:build unix

package mirror

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// TestRootInTheMirrorOfAnother: root is warned before it creates files in the mirror of another
// user, and not in its own.
func TestRootInTheMirrorOfAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	for uid, want := range map[int]bool{0: false, 54321: true} {
		dir := t.TempDir()
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Skipf("this machine does not permit it: %v", err)
		}
		var log bytes.Buffer
		m, err := OpenState(t.Context(), &Selection{Dest: dir}, false, BucketClient{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		if got := strings.Contains(log.String(), "root writes into a mirror of another user"); got != want {
			t.Errorf("of user %d: warned %v, want %v: %s", uid, got, want, &log)
		}
	}
}
