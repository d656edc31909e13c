package memento_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/memento"
)

// A haltedStore lists versions only when released.
type haltedStore struct {
	*memento.Mem
	goOn chan struct{}

	mu     sync.Mutex // guards listed
	listed int
}

func (s *haltedStore) List(ctx context.Context, uri string, after time.Time) iter.Seq2[memento.Version, error] {
	return func(yield func(memento.Version, error) bool) {
		s.mu.Lock()
		s.listed++
		s.mu.Unlock()
		select {
		case <-s.goOn:
		case <-ctx.Done():
			yield(memento.Version{}, ctx.Err())
			return
		}
		s.Mem.List(ctx, uri, after)(yield)
	}
}

// TestTimeMapTogether: a page that several clients request while it is being
// generated is generated once more for all of them, with the versions added
// meanwhile, even if the client that would have generated it disconnects.
func TestTimeMapTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const base, uri = memento.Base("http://past.example/"), "http://past.example/a"
		s := &haltedStore{Mem: memento.NewMem(), goOn: make(chan struct{})}
		h := memento.NewHandler(s, memento.Options{Base: base})
		at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
		add := func(n int) {
			v := memento.Version{URI: uri, At: at.Add(time.Duration(n) * time.Hour), Seq: int64(n)}
			if err := s.Append(t.Context(), "set", int64(n), []memento.Version{v}); err != nil {
				t.Fatal(err)
			}
		}
		var answers []*httptest.ResponseRecorder
		ask := func(ctx context.Context) {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", base.TimeMap(uri), nil)
			answers = append(answers, w)
			go func() {
				defer func() {
					cut := recover()
					err, _ := cut.(error)
					if cut != nil && (!errors.Is(err, http.ErrAbortHandler) || ctx.Err() == nil) {
						panic(cut) // only the connection of a disconnected client is closed
					}
				}()
				h.ServeHTTP(w, r)
			}()
			synctest.Wait()
		}
		add(1)
		ask(t.Context())
		add(2)
		leaving, leave := context.WithCancel(t.Context())
		ask(leaving)
		for range 50 {
			ask(t.Context())
		}
		leave()
		synctest.Wait()
		close(s.goOn)
		synctest.Wait()
		if s.listed != 2 {
			t.Errorf("the versions were listed %d times, want 2", s.listed)
		}
		for i, w := range answers {
			want := []int{1, 2}[min(i, 1)]
			if got := strings.Count(w.Body.String(), "memento\""); w.Code != 200 || i != 1 && got < want {
				t.Errorf("answer %d has status %d and %d versions, want at least %d", i, w.Code, got, want)
			}
		}
	})
}
