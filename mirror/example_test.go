package mirror_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"lockstep/mirror"
	"lockstep/publish"
)

// A directory is brought into step with a Source.
func ExampleSync() {
	source := startSource("one.txt", "two.txt") // for you, an address such as https://example.org/
	defer source.Close()
	dir, err := os.MkdirTemp("", "mirror")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	report, err := mirror.Sync(context.Background(), source.URL, dir, mirror.Options{})
	if err != nil {
		fmt.Println(err) // with errors.Is(err, mirror.ErrIncomplete), report lists what failed
		return
	}
	fmt.Println("created:", report.Created, "complete:", report.Complete)
	text, err := os.ReadFile(filepath.Join(dir, "one.txt"))
	fmt.Println(string(text), err)
	// Output:
	// created: 2 complete: true
	// I am one.txt <nil>
}

// A program processes every change of a mirror, each at least once.
func ExampleMirror_Changes() {
	source := startSource("one.txt")
	defer source.Close()
	dir, err := os.MkdirTemp("", "mirror")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	m, err := mirror.Open(source.URL, dir, mirror.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	var report mirror.Report
	for change, err := range m.Changes(context.Background(), &report) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(change.Kind, change.Path)
	}
	fmt.Println("created:", report.Created)
	// Output:
	// created one.txt
	// created: 1
}

// A webSource is a Source of files in a temporary directory.
type webSource struct {
	*httptest.Server
	files string
}

func (s webSource) Close() {
	s.Server.Close()
	_ = os.RemoveAll(s.files)
}

// startSource publishes files with these names on a web server.
func startSource(names ...string) webSource {
	files, err := os.MkdirTemp("", "files")
	for _, name := range names {
		if err == nil {
			err = os.WriteFile(filepath.Join(files, name), []byte("I am "+name), 0o644)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(files)))
	if err == nil {
		_, err = publish.Dir(context.Background(), files, publish.Options{BaseURL: server.URL, State: filepath.Join(files, ".lockstep", "state")})
	}
	if err != nil {
		fmt.Println(err)
	}
	return webSource{server, files}
}
