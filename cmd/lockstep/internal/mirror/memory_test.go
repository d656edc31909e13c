package mirror

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"lockstep/destination/journal"
)

// TestStateTakenMeanwhile: a state that another mirror takes while this one looks at its bucket is refused. What the
// other one has would be missing in this one.
func TestStateTakenMeanwhile(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"s3://copies/here", ""} {
		state := filepath.Join(t.TempDir(), "state")
		if first == "" {
			first = state // a mirror in a directory
		}
		var c BucketClient
		open := func(dest string) error {
			sel := &Selection{Dest: dest}
			if IsBucket(dest) {
				sel.State = state
			}
			s, err := OpenState(t.Context(), sel, false, c)
			if err == nil {
				s.Close()
			}
			return err
		}
		take := sync.OnceValue(func() error { return open(first) })
		fake := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.String(), "there") {
				if err := take(); err != nil {
					t.Errorf("the first mirror: %v", err)
				}
			}
			fake.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		env := map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
		c = BucketClient{Log: slog.New(slog.DiscardHandler), LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
		if err := open("s3://copies/there"); err == nil || !strings.Contains(err.Error(), "--state "+state+" ") {
			t.Errorf("the state of %s was opened for another mirror: %v", first, err)
		}
	}
}

// A silentJournal never answers.
type silentJournal struct{ journal.Journal }

func (silentJournal) Load(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentJournal) Record(ctx context.Context, _ journal.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// A document of a database that does not answer is given up.
func TestDocumentWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := document{silentJournal{}, "name"}
		if _, err := d.Read(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		if err := d.Write(nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
	})
}
