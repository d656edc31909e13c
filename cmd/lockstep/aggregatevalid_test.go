package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAggregatorsAreValid has validate check Aggregators in every configuration: either
// form of via links, resources that are copied or not, one upstream, several side by side
// or with the same addresses; each set with a collection, dumps, archives, versions, a
// feed, and in OAI-PMH, after changes and deletions; and Aggregators of these.
func TestAggregatorsAreValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func(name, config string) *process {
		t.Helper()
		path := filepath.Join(dir, name+".yaml")
		write(t, dir, name+".yaml", config)
		p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "--config", path, "--listen", "127.0.0.1:0", "--state", filepath.Join(dir, name)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		t.Cleanup(func() {
			if t.Failed() {
				upstreams, err := get(p.address + "-/upstreams")
				t.Logf("%s: %s\n%s %v", name, p.stderr, upstreams, err)
			}
		})
		return p
	}
	var origins []*process
	for i := range 2 {
		files := fmt.Sprint("files", i)
		write(t, dir, files+"/one.txt", fmt.Sprint("one of ", i))
		write(t, dir, files+"/d/a b.xml", `<a xmlns="urn:a"/>`)
		write(t, dir, files+"/gone.txt", "gone")
		origins = append(origins, serve(fmt.Sprint("origin", i), fmt.Sprintf("sets:\n- {from: 'dir:%s', sidecar: .links.json}\n", files)))
	}
	var sets []string
	config := "sets:\n"
	for _, kind := range []string{"origin", "chain", "copy-false"} {
		for _, form := range []string{"one", "apart", "shared"} {
			name := kind + "-" + form
			sets = append(sets, name)
			from := func(i int) string { return fmt.Sprintf("from: 'resourcesync:%s', poll: 50ms", origins[i].address) }
			up := from(0)
			switch form {
			case "apart":
				up = fmt.Sprintf("upstreams: [{name: a, %s}, {name: b, %s}]", from(0), from(1))
			case "shared":
				up = fmt.Sprintf("upstreams: [{%s, max_delete: 100}, {%s, priority: 1}]", from(0), from(1))
			}
			config += fmt.Sprintf("- {name: %s, %s, collection: 'http://c.example.org/', "+
				"resource_dump: {every: 1s}, change_dump: {every: 1s}, atom_pmh: true, oai_pmh: true", name, up)
			if kind == "copy-false" {
				config += ", copy: false"
			} else {
				config += ", via: " + kind + ", versions: {keep: all}, archive: {resource_lists: all, resource_dumps: all, change_lists: all, change_dumps: all}"
			}
			config += "}\n"
		}
	}
	first := serve("first", config)
	for _, set := range sets { // before that, it may ask for more patience than this test has
		waitForListed(t, first.address, set, "/gone.txt</loc>")
	}
	second := serve("second", fmt.Sprintf("dump: true\natom_pmh: true\noai_pmh: true\nsets:\n"+
		"- {name: origin, from: 'resourcesync:%[1]sresourcesync/origin-apart/capabilitylist.xml', poll: 50ms}\n"+
		"- {name: chain, from: 'resourcesync:%[1]sresourcesync/chain-one/capabilitylist.xml', via: chain, poll: 50ms}\n", first.address))
	waitForListed(t, second.address, "origin", "/gone.txt</loc>")
	waitForListed(t, second.address, "chain", "/gone.txt</loc>")
	for i := range origins {
		files := filepath.Join(dir, fmt.Sprint("files", i))
		write(t, files, "d/a b.xml", `<a xmlns="urn:a">changed</a>`)
		write(t, files, "one.txt.links.json", fmt.Sprintf(`{"links": [{"rel": "describedby", "href": "%[1]sd/a%%20b.xml"}, {"rel": "canonical", "href": "%[1]sx"}]}`, origins[i].address))
		if err := os.Remove(filepath.Join(files, "gone.txt")); err != nil {
			t.Fatal(err)
		}
	}
	changed := func(address string, sets ...string) {
		t.Helper()
		for _, set := range sets {
			waitFor(t, "the changes of "+set, func() bool {
				text, err := get(address + "resourcesync/" + set + "/changelist.xml")
				return err == nil && strings.Contains(text, `change="deleted"`) && strings.Contains(text, `/one.txt</loc>`) && strings.Contains(text, "/a%20b.xml</loc>")
			})
		}
	}
	changed(first.address, sets...)
	changed(second.address, "origin", "chain")
	for _, p := range []*process{first, second} {
		for _, args := range [][]string{{p.address, "--sample", "all"}, {"oai-pmh:" + p.address + "oai"}} {
			out, err := exec.CommandContext(t.Context(), "lockstep", append([]string{"validate"}, args...)...).CombinedOutput()
			if err != nil {
				t.Errorf("validate %v: %v\n%s\n%s", args, err, out, p.stderr)
			}
		}
	}
}

// waitForListed waits until a text is in the Resource List of a set: an Aggregator is ready
// before it has mirrored its upstreams.
func waitForListed(t *testing.T, address, set, text string) {
	t.Helper()
	waitFor(t, text+" in "+set, func() bool {
		list, err := get(address + "resourcesync/" + set + "/resourcelist.xml")
		return err == nil && strings.Contains(list, text)
	})
}
