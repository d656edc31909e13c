package source_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/source"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden holds the bytes of all documents, and of the state beside them.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts source.Options
		play func(w *world, s *source.Source)
	}{
		{"first", source.Options{}, func(w *world, s *source.Source) {
			w.put("a.txt=hello", "b%20c/d&e.txt=", "it's=1")
			w.publish(s)
		}},
		{"changed", source.Options{
			Description: "https://data.example.org/about",
			Sets:        []source.Set{{Name: "main", Description: "https://data.example.org/about#main"}},
		}, func(w *world, s *source.Source) {
			w.put("a.txt=hello", "b.txt=there")
			w.publish(s)
			w.pass(90 * time.Second)
			w.put("a.txt=hello, world", "b.txt", "c.txt=new")
			w.publish(s)
		}},
		{"split", source.Options{MaxEntries: 3}, func(w *world, s *source.Source) {
			w.put("a.txt=1", "b.txt=2", "c.txt=3")
			w.publish(s)
			for i := range 5 {
				w.pass(time.Hour)
				w.put(fmt.Sprintf("d%d.txt=x", i))
				if i != 1 {
					w.publish(s)
				}
			}
		}},
		{"archived", source.Options{Grace: time.Hour, Sets: []source.Set{{ChangeList: source.ChangeList{Rotate: time.Hour, Keep: 2 * time.Hour},
			Archive: &source.Archive{ResourceLists: &source.Retain{Count: 2}, ChangeLists: &source.Retain{All: true}}}},
		}, func(w *world, s *source.Source) {
			for i := range 5 {
				w.put(fmt.Sprintf("a%d.txt=x", i))
				w.publish(s)
				w.pass(time.Hour)
			}
		}},
		{"notified", source.Options{Streams: 1, Static: true, Hubs: []source.Hub{
			{URL: "https://a.example.net/hub?x=1&y=2", Notifier: &sink{t: t}}, {URL: "https://b.example.net/"},
		}}, func(w *world, s *source.Source) {
			w.put("a.txt=hello")
			w.publish(s)
			for range 2 {
				if err := s.NotifyOnce(w.Context()); err != nil {
					w.Fatal(err)
				}
				w.pass(time.Minute)
				w.put("a.txt=hello, world", "b%20c/d&e.txt=", "a.txt")
				w.publish(s)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.opts)
			tt.play(w, w.source())
			w.upToDate()
			var b strings.Builder
			files := w.files()
			for _, name := range slices.Sorted(maps.Keys(files)) {
				stamp, content, _ := strings.Cut(files[name], "\n")
				if strings.HasPrefix(name, ".lockstep/") {
					stamp = "" // of no consequence
				}
				fmt.Fprintf(&b, "-- %s -- %s\n%s", name, stamp, content)
			}
			golden := "testdata/" + tt.name + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
				t.Errorf("documents differ from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}
