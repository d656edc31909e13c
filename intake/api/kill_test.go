//go:build unix

package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/api"
	"lockstep/storage/sqlite"
)

// TestAPIKilled: a process killed at any moment loses no change it answered
// for, and makes none twice, however often and late clients ask again.
//
// All processes accept from one socket, which outlives them: an address on which no
// process listened for a while could be given to the server of another test.
func TestAPIKilled(t *testing.T) {
	t.Parallel()
	if state := os.Getenv("INTAKE_TEST_API"); state != "" {
		serveSQLite(t, state)
		return
	}
	const clients, changes, kills = 6, 60, 8
	state := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	socket, err := l.(*net.TCPListener).File()
	must(t, err)
	must(t, l.Close())                    // socket is another one
	defer func() { _ = socket.Close() }() // nothing is written to it
	ctx, stop := context.WithCancel(t.Context())
	var killed sync.WaitGroup
	killed.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			wait := time.Duration(5+rand.IntN(60)) * time.Millisecond
			if n >= kills {
				wait = time.Minute
			}
			runAndKill(ctx, t, state, wait, socket)
		}
	})
	var g sync.WaitGroup
	for c := range clients {
		g.Go(func() {
			client := &apiClient{t: t, address: "http://" + l.Addr().String(), name: fmt.Sprint("http://", c)}
			for k := range changes {
				client.change(k)
			}
		})
	}
	g.Wait()
	stop()
	killed.Wait()
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	must(t, err)
	defer func() { _ = db.Close() }() // read from only
	events := make(map[string]int64)
	for c, err := range db.Catalog().Changes(t.Context(), papers, 0) {
		must(t, err)
		if want := events[c.URI]; c.Length != want%2 {
			t.Errorf("change %d: %s has length %d, want %d", c.Seq, c.URI, c.Length, want%2)
		}
		events[c.URI]++
	}
	for uri, n := range events {
		if n != changes {
			t.Errorf("%d changes of %s, want %d", n, uri, changes)
		}
	}
	if len(events) != 2*clients {
		t.Errorf("%d resources have changes, want %d", len(events), 2*clients)
	}
}

// An apiClient reports changes of its own resources.
type apiClient struct {
	t       *testing.T
	address string
	name    string
	answers []string
}

// change reports the k-th change until it gets a response, and sometimes repeats an
// earlier one, which must get the same response again. The length of a resource goes
// up and down, so a change made twice would show.
func (c *apiClient) change(k int) {
	c.answers = append(c.answers, c.tell(k))
	if old := rand.IntN(k + 1); rand.IntN(3) == 0 {
		if again := c.tell(old); again != c.answers[old] {
			c.t.Errorf("change %d of %s again: %s, at first %s", old, c.name, again, c.answers[old])
		}
	}
}

func (c *apiClient) tell(k int) string {
	body := fmt.Sprintf(`[{"uri":"%s/a","length":%d},{"uri":"%s/b","length":%d}]`, c.name, k%2, c.name, k%2)
	for c.t.Context().Err() == nil {
		text, err := c.post(body, fmt.Sprint(c.name, " ", k))
		if err == nil {
			return text
		}
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond) // as an impatient client does
	}
	return ""
}

func (c *apiClient) post(body, key string) (string, error) {
	req, err := http.NewRequestWithContext(c.t.Context(), "POST", c.address+"/-/api/v1/sets/papers/changes", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusOK:
		return string(text), nil
	case resp.StatusCode != http.StatusConflict:
		c.t.Errorf("%s: %d %s", key, resp.StatusCode, text)
	}
	return "", errors.New(resp.Status)
}

// runAndKill runs a process with an API that accepts from socket, for a while.
func runAndKill(ctx context.Context, t *testing.T, state string, wait time.Duration, socket *os.File) {
	c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestAPIKilled$")
	c.Env = append(os.Environ(), "INTAKE_TEST_API="+state)
	c.ExtraFiles = []*os.File{socket}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return
	}
	defer func() { _ = c.Wait() }() // it was killed
	in := bufio.NewScanner(out)
	for in.Scan() {
		if in.Text() == "ready" {
			break
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	_ = c.Process.Kill()
}

// serveSQLite serves an API until the process is killed.
func serveSQLite(t *testing.T, state string) {
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	must(t, err)
	var cat catalog.Catalog = db.Catalog()
	api, err := api.New(cat, api.Options{State: filepath.Join(state, "api"), Sets: map[string]string{"papers": papers}})
	must(t, err)
	l, err := net.FileListener(os.NewFile(3, "socket"))
	must(t, err)
	fmt.Println("ready")
	_ = http.Serve(l, asOwner(api)) // until the end
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
