package source_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/validate/opener"
	"lockstep/validate/validatetest"
)

// capabilityList reads the Capability List of a set.
func (w *newsWorld) capabilityList(set string) (resourcesync.Header, []resourcesync.Entry) {
	w.Helper()
	c := &crawl{read: reader(w.docs)}
	h, entries, err := c.document("resourcesync/"+set+"/capabilitylist.xml", resourcesync.CapabilityList)
	if err != nil {
		w.Fatal(err)
	}
	return h, entries
}

// TestChannelPerSet: each set has a channel of its own (RN-CH-01, RN-CH-03), a
// resource of several sets is told on the channel of each (RN-CH-04), and each
// tells of its own set alone (RN-CH-05, RN-AMB-07). Every hub is told of all of
// it (RN-PB-10, WS-P-01).
func TestChannelPerSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := &sink{t: t}, &sink{t: t}
		w := newNewsWorld(t, source.Options{
			Hubs: []source.Hub{{URL: "https://near.example.net/", Notifier: near}, {URL: "https://far.example.net/", Notifier: far}},
			Sets: []source.Set{{Name: "maps"}, {Name: "texts"}},
		})
		w.change("maps", "shared=1", "map=1")
		w.change("texts", "shared=1", "text=1")
		w.publish()
		synctest.Wait()
		for _, hub := range []*sink{near, far} {
			for _, set := range []string{"maps", "texts"} {
				if gaps, _ := w.covers(w.happened[set], hub.accepted(set)); gaps > 0 || len(w.happened[set]) != 2 {
					t.Errorf("set %s: %d gaps", set, gaps)
				}
			}
			if n := hub.asked(); n != 2 {
				t.Errorf("%d notifications, want one on each channel", n)
			}
		}
		w.stop()
	})
}

// TestChannelAdvertised: the channel is one entry of the Capability List
// whatever the number of hubs (RN-CH-07, RN-CH-08; the hubs are children of url,
// RN-AMB-03), beside the Change List that push does not replace (RN-CH-02). Its
// coming and going is seen there and told nowhere (RN-CH-06, RN-FW-02: there are
// no notifications of documents). The stream of events is named whether there
// is a hub or not.
func TestChannelAdvertised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &sink{t: t}
		hubs := []source.Hub{{URL: "https://a.example.net/?x=1&y=2", Notifier: hub}, {URL: "https://b.example.net/"}}
		w := newNewsWorld(t, source.Options{Streams: 1})
		w.change("main", "a=1")
		w.publish()
		channel := func() *resourcesync.Entry {
			_, entries := w.capabilityList("main")
			var found []resourcesync.Entry
			for _, e := range entries {
				if e.Capability == resourcesync.ChangeNotification {
					found = append(found, e)
				}
			}
			if len(found) > 1 {
				t.Errorf("RN-CH-08: %d channels", len(found))
			}
			if !slices.ContainsFunc(entries, func(e resourcesync.Entry) bool { return e.Capability == resourcesync.ChangeList }) {
				t.Error("RN-CH-02: no Change List")
			}
			validatetest.NoFindings(t, opener.Named(baseURL, opening(w.docs)), baseURL+"resourcesync/main/capabilitylist.xml")
			if len(found) == 0 {
				return nil
			}
			return &found[0]
		}
		if e := channel(); e != nil {
			t.Errorf("RN-CH-07: without a hub there is a channel, %+v", e)
		}
		if h, _ := w.capabilityList("main"); h.Link(source.RelEvents) != topicOf("main") {
			t.Errorf("events are at %q, want %s", h.Link(source.RelEvents), topicOf("main"))
		}
		w.opts.Hubs = hubs
		w.restart()
		e := channel()
		if e == nil || e.Loc != topicOf("main") || len(e.Links) != 2 || e.Links[0].Href != hubs[0].URL || e.Links[1].Href != hubs[1].URL ||
			e.Links[0].Rel != resourcesync.RelHub {
			t.Errorf("RN-CH-07: the channel is %+v", e)
		}
		w.opts.Hubs = nil
		w.restart()
		if e := channel(); e != nil {
			t.Errorf("RN-CH-06: the channel is still there, %+v", e)
		}
		if hub.asked() > 0 {
			t.Error("RN-CH-06, RN-FW-02: the hub was told of something else than changes")
		}
		w.stop()
	})
}

// TestChannelAgrees: what the Change List cannot state is in no notification
// either (RN-PL-08), and links are told as there (RN-PL-05).
func TestChannelAgrees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &sink{t: t}
		w := newNewsWorld(t, source.Options{
			Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}},
			Sets: []source.Set{{Name: "main", Links: []source.LinkRule{{Href: "https://m.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate"}}}}},
		})
		hub.check = w.inChangeList
		list, _ := source.CapabilityListURI(baseURL, "main")
		impossible := catalog.Update{Record: record(baseURL+"a\x01b", "x")}
		if _, err := w.cat.Apply(t.Context(), list, []catalog.Update{impossible}); err != nil {
			t.Fatal(err)
		}
		w.publish()
		synctest.Wait()
		if n := hub.asked(); n != 0 {
			t.Errorf("RN-PL-10: %d notifications of nothing", n)
		}
		w.change("main", "good=1")
		w.publish()
		synctest.Wait()
		got := hub.accepted("main")
		if gaps, _ := w.covers(w.happened["main"], got); gaps > 0 || len(got) != 1 {
			t.Errorf("%d notifications, %d gaps", len(got), gaps)
		}
		if !strings.Contains(string(got[0].body), `href="https://m.example.org/good"`) {
			t.Errorf("RN-PL-05: no link in\n%s", got[0].body)
		}
		w.stop()
	})
}

// TestChannelBehind: a hub that is new begins with what comes; one whose place
// is lost, or whose changes have left the Change List, is told a true from.
func TestChannelBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(w *newsWorld)
		gaps int
	}{
		{"nothing happened", func(*newsWorld) {}, 0},
		{"place lost", func(w *newsWorld) { w.remove(".lockstep/main.notify.json") }, 1},
		{"place unreadable", func(w *newsWorld) { put(w, w.docs, ".lockstep/main.notify.json", []byte("{")) }, 1},
		{"place of another set", func(w *newsWorld) {
			put(w, w.docs, ".lockstep/main.notify.json", []byte(`{"version":1,"capability_list":"http://x.org/","hubs":{"https://hub.example.net/":{"told":{"seq":1,"until":"2020-01-01T00:00:00Z"}}}}`))
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := &sink{t: t}
				w := newNewsWorld(t, source.Options{Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}}})
				w.change("main", "a=1")
				w.publish()
				synctest.Wait()
				w.stop()
				tt.do(w)
				w.change("main", "b=1")
				w.start()
				w.change("main", "c=1")
				w.publish()
				synctest.Wait()
				if gaps, _ := w.covers(w.happened["main"], hub.accepted("main")); gaps != tt.gaps {
					t.Errorf("%d gaps, want %d", gaps, tt.gaps)
				}
				w.stop()
			})
		})
	}
}

// TestChannelNewer: what a newer version remembers is not thrown away.
func TestChannelNewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: &sink{t: t}}}})
	put(t, w.docs, ".lockstep/main.notify.json", []byte(`{"version":99}`))
	s := w.source()
	w.publish(s)
	if err := s.NotifyOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("NotifyOnce = %v", err)
	}
}

// TestHubs: what cannot be named in a document is refused.
func TestHubs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "hub", "ftp://hub.example.net/", "http:///x", "http://hub.example.net/#a", "http://hub.example.net/<"} {
		w := newWorld(t, source.Options{Hubs: []source.Hub{{URL: url}}})
		if _, err := source.New(w.cat, w.docs, w.opts); err == nil {
			t.Errorf("hub %q is taken", url)
		}
	}
	twice := newWorld(t, source.Options{Hubs: []source.Hub{{URL: "http://a.org/"}, {URL: "http://a.org/"}}})
	if _, err := source.New(twice.cat, twice.docs, twice.opts); err == nil {
		t.Error("a hub is named twice")
	}
}

// TestRetrievable: what is notified can be fetched before it is (RN-PL-09).
func TestRetrievable(t *testing.T) {
	t.Parallel()
	hub := &sink{t: t}
	s := newSite(t, source.Options{Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}}}, map[string]string{"a.txt": "1"})
	if err := s.src.NotifyOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	hub.check = func(p payload) {
		for _, one := range p.changes {
			if res, body := s.do(http.MethodGet, "/"+name(one.loc)); res.StatusCode != http.StatusOK || body != "2" {
				t.Errorf("RN-PL-09: %s is %d, %q", one.loc, res.StatusCode, body)
			}
		}
	}
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("2"), 0o666); err != nil {
			t.Fatal(err)
		}
		s.put(name + "=2")
		s.publish(s.src)
		if err := s.src.NotifyOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := hub.accepted("main"); len(got) != 2 {
		t.Errorf("%d notifications, want 2", len(got))
	}
}

// remove removes a blob.
func (w *newsWorld) remove(name string) {
	w.Helper()
	if err := w.docs.Remove(w.Context(), name); err != nil {
		w.Fatal(err)
	}
}

// opening opens documents for validate.
func opening(docs blob.Store) func(context.Context, string) (io.ReadCloser, error) {
	return func(ctx context.Context, name string) (io.ReadCloser, error) {
		r, err := docs.Open(ctx, name)
		if err != nil {
			return nil, errors.Join(fs.ErrNotExist, err)
		}
		return r, nil
	}
}
