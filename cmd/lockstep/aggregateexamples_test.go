package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExamplesOfRepublishedResources has a Source, an Aggregator and an Aggregator of it
// publish the documents that the standard prints of such a chain: Examples 8.8 to 8.10 of
// version 0.9 with "via: chain", Examples 31 to 33 of the current one by default. They are
// equal element for element and attribute for attribute, and equal times and hashes are
// equal in the same places; [printed] and the cases name each difference.
func TestExamplesOfRepublishedResources(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		via      string
		examples []string
		differ   func(hosts []string, documents []*element)
	}{
		{"chain", []string{"example-0.9-8-8", "example-0.9-8-9", "example-0.9-8-10"}, func(_ []string, documents []*element) {
			for _, d := range documents {
				d.Children[0].Attrs["rel"] = "up"    // as it is called since 1.0 (RS-VER-04)
				delete(d.Children[1].Attrs, "until") // the Change List continues (RS-CHL-06)
			}
		}},
		{"origin", []string{"example-core-31", "example-core-32", "example-core-33"}, func(hosts []string, documents []*element) {
			// From the second Aggregator on a private link helps to recognize loops.
			entry := documents[2].Children[2]
			entry.Children = append(entry.Children, &element{Name: "ln", Attrs: map[string]string{
				"rel": "urn:x-lockstep:hop", "href": hosts[1] + "res1.html",
			}})
		}},
	} {
		t.Run(tt.via, func(t *testing.T) {
			t.Parallel()
			var want []*element
			for _, name := range tt.examples {
				want = append(want, printed(t, name))
			}
			tt.differ(exampleHosts, want)
			got := publishExample(t, tt.via)
			if d := cmp.Diff(number(want), number(got)); d != "" {
				t.Errorf("(-printed +published)\n%s", d)
			}
		})
	}
}

// exampleHosts are those of the examples, as base URLs: the origin's and the Aggregators'.
var exampleHosts = []string{"http://original.example.com/", "http://aggregator1.example.com/", "http://aggregator2.example.com/"}

// printed returns an example of the standard, changed where all of our documents differ.
func printed(t *testing.T, name string) *element {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name+".xml"))
	if err != nil {
		t.Fatal(err)
	}
	_, doc, _ := strings.Cut(string(text), "-->\n")                                                    // what describes the vector
	doc = strings.ReplaceAll(doc, "http://example.com/", exampleHosts[0])                              // the origin's host has two names in the examples
	doc = strings.ReplaceAll(doc, "/dataset1/capabilitylist", "/resourcesync/dataset1/capabilitylist") // where our documents are
	root := parseElement(t, doc)
	root.Children[2].Children[2].Attrs["datetime"] = "any time" // RS-CHL-04: the current standard recommends it
	return root
}

// publishExample has three processes publish a resource and a change of it, and returns
// their Change Lists, with the hosts of the examples.
func publishExample(t *testing.T, via string) (documents []*element) {
	t.Helper()
	dir := t.TempDir()
	resource := filepath.Join(dir, "files", "res1.html")
	write(t, dir, "files/res1.html", strings.Repeat("1", 8800))
	var bases []string
	for i := range exampleHosts {
		listen := freeAddress(t)
		base := "http://" + listen + "/"
		config := fmt.Sprintf("hash: [md5]\nsets:\n- name: dataset1\n  uri: %s\n  from: dir:%s\n", base, filepath.Dir(resource))
		if i > 0 {
			config = fmt.Sprintf("sets:\n- name: dataset1\n  uri: %s\n  from: 'resourcesync:%s'\n  via: %s\n  poll: 50ms\n", base, bases[i-1], via)
		}
		name := fmt.Sprintf("%d.yaml", i)
		write(t, dir, name, config)
		p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "--config", filepath.Join(dir, name), "--listen", listen, "--state", filepath.Join(dir, fmt.Sprint("state", i))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		waitForListed(t, base, "dataset1", "/res1.html</loc>")
		bases = append(bases, base)
	}
	write(t, dir, "res1.html", strings.Repeat("2", 8876))
	if err := os.Rename(filepath.Join(dir, "res1.html"), resource); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the change", func() bool {
		text, err := get(bases[2] + "resourcesync/dataset1/changelist.xml")
		return err == nil && strings.Contains(text, `length="8876"`)
	})
	for _, base := range bases {
		text, err := get(base + "resourcesync/dataset1/changelist.xml")
		if err != nil {
			t.Fatal(err)
		}
		for i := range bases {
			text = strings.ReplaceAll(text, bases[i], exampleHosts[i])
		}
		documents = append(documents, parseElement(t, text))
	}
	return documents
}

// An element is an element of XML without names of namespaces.
type element struct {
	Name     string
	Attrs    map[string]string
	Text     string
	Children []*element
}

func parseElement(t *testing.T, doc string) *element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(doc))
	open := []*element{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return open[0].Children[0]
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		last := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{Name: token.Name.Local, Attrs: map[string]string{}}
			for _, a := range token.Attr {
				if a.Name.Local != "xmlns" && a.Name.Space != "xmlns" {
					e.Attrs[a.Name.Local] = a.Value
				}
			}
			last.Children = append(last.Children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.Text += string(bytes.TrimSpace(token))
		}
	}
}

// number replaces times and hashes by their number in the order of the first appearance,
// and times that depend only on when something ran.
func number(documents []*element) []*element {
	var times, hashes []string
	number := func(seen *[]string, kind, s string) string {
		if !slices.Contains(*seen, s) {
			*seen = append(*seen, s)
		}
		return fmt.Sprint(kind, slices.Index(*seen, s))
	}
	var walk func(e *element)
	walk = func(e *element) {
		if e.Name == "lastmod" {
			e.Text = number(&times, "time ", e.Text)
		}
		for name, value := range e.Attrs {
			switch name {
			case "modified":
				e.Attrs[name] = number(&times, "time ", value)
			case "hash":
				e.Attrs[name] = number(&hashes, "hash ", value)
			case "from", "datetime":
				e.Attrs[name] = "any time"
			}
		}
		for _, child := range e.Children {
			walk(child)
		}
	}
	for _, d := range documents {
		walk(d)
	}
	return documents
}
