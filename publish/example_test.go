package publish_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"lockstep/publish"
)

// A directory is published twice: as it is, and after a change.
func ExampleDir() {
	files, err := os.MkdirTemp("", "example") // such as /var/www
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(files)
	options := publish.Options{BaseURL: "https://data.example.org/", State: filepath.Join(files, ".lockstep", "state")}
	for _, name := range []string{"one.txt", "two.txt"} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(name), 0o644); err != nil {
			fmt.Println(err)
			return
		}
		report, err := publish.Dir(context.Background(), files, options)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(report.CapabilityList, "resources:", report.Resources, "created:", report.Created)
	}
	// Output:
	// https://data.example.org/resourcesync/main/capabilitylist.xml resources: 1 created: 1
	// https://data.example.org/resourcesync/main/capabilitylist.xml resources: 2 created: 1
}
