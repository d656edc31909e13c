package destination_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/source"
)

// A mirror in memory stays in step with a Source, which sends notifications of
// changes as a stream of events.
func ExampleDestination_Follow() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	site, err := startSite(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer site.close()

	client, err := destination.NewClient(site.url, destination.ClientOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	arrived := make(chan string, 10)
	store, memory := &blob.Mem{}, &journal.Mem{} // in memory; for more, blob.NewDir and storage/sqlite
	d, err := destination.New(store, memory, client, destination.Options{
		Deliver: func(_ context.Context, batch []destination.Change) error {
			for i := range batch {
				arrived <- batch[i].Path
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// With a Callback, and Follower.Handler served there, hubs are subscribed to.
	f, err := d.Follow(site.url, destination.FollowOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	fmt.Println("at first:", <-arrived)
	site.add("second.txt")
	fmt.Println("and then:", <-arrived)
	stop()
	fmt.Println(<-ended)
	// Output:
	// at first: first.txt
	// and then: second.txt
	// <nil>
}

// A notifyingSite is a small Source.
type notifyingSite struct {
	url   string
	set   string
	root  *os.Root
	cat   catalog.Catalog
	src   *source.Source
	close func()
}

func startSite(ctx context.Context) (*notifyingSite, error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	var handler http.Handler
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	s := &notifyingSite{url: srv.URL + "/", root: root, cat: catalog.NewMem(nil)}
	s.close = func() {
		srv.CloseClientConnections()
		srv.Close()
		_, _ = root.Close(), os.RemoveAll(dir)
	}
	s.src, err = source.New(s.cat, &blob.Mem{}, source.Options{BaseURL: s.url, Content: s.open, Streams: 10})
	if err != nil {
		return nil, err
	}
	handler = s.src.Handler()
	if s.set, err = source.CapabilityListURI(s.url, source.DefaultSet); err != nil {
		return nil, err
	}
	s.add("first.txt")
	go func() { _ = s.src.Notify(ctx) }()
	return s, nil
}

// add adds a resource, which contains its name.
func (s *notifyingSite) add(name string) {
	err := s.root.WriteFile(name, []byte(name), 0o600)
	if err == nil {
		record := catalog.Record{URI: s.url + name, Length: int64(len(name))}
		_, err = s.cat.Apply(context.Background(), s.set, []catalog.Update{{Record: record}})
	}
	if err == nil {
		_, err = s.src.Publish(context.Background())
	}
	if err != nil {
		fmt.Println(err)
	}
}

func (s *notifyingSite) open(rel string) (*os.File, fs.FileInfo, error) {
	f, err := s.root.Open(rel)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	return f, info, err
}
