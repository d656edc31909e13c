package filename_test

import (
	"errors"
	"testing"

	"lockstep/destination/filename"
)

func TestPathValue(t *testing.T) {
	t.Parallel()
	const prefix = "https://repo.example.org/oai?verb=GetRecord&metadataPrefix=oai_dc&identifier="
	p, err := filename.New(filename.Options{
		Origin: "https://repo.example.org",
		Map:    []filename.Map{{Prefix: prefix, Dir: ".", Value: true, Suffix: ".xml"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		prefix + "oai%3Aexample.org%3Amaps%2F7": "oai:example.org:maps/7.xml",
		prefix + "oai%3Ax%3A1":                  "oai:x:1.xml",
		prefix + "caf%C3%A9%20au%20lait":        "café au lait.xml",
		prefix + "..%2F..%2Fetc%2Fpasswd":       "%~=2E./%~=2E./etc/passwd.xml",
		prefix + ".lockstep%2Fstate.db":         "%~=2Elockstep/state.db.xml",
		prefix + "%2F":                          "%~@/.xml",
		prefix:                                  ".xml",
		prefix + "oai:x:1":                      "_other/repo.example.org/oai%~=3Fverb=GetRecord&metadataPrefix=oai_dc&identifier=oai:x:1",
		prefix + "oai%3ax%3a1":                  "_other/repo.example.org/oai%~=3Fverb=GetRecord&metadataPrefix=oai_dc&identifier=oai%~3ax%~3a1",
		"https://repo.example.org/about":        "_other/repo.example.org/about",
	} {
		got, err := p.Path(uri)
		if got != want || err != nil {
			t.Errorf("Path(%q) = %q, %v, want %q", uri, got, err, want)
		}
		if back, err := p.URI(got); back != uri || err != nil {
			t.Errorf("URI(%q) = %q, %v, want %q", got, back, err, uri)
		}
	}
	for _, name := range []string{"a", "a.txt", "..xml/b"} {
		if uri, err := p.URI(name); !errors.Is(err, filename.ErrPath) {
			t.Errorf("URI(%q) = %q, %v, want ErrPath", name, uri, err)
		}
	}
}

func TestPathValueMaps(t *testing.T) {
	t.Parallel()
	for _, m := range []filename.Map{
		{Prefix: "https://x/?a=", Dir: "a", Value: true, Suffix: "/b"},
		{Prefix: "https://x/?a=", Dir: "a", Suffix: ".xml"},
	} {
		if _, err := filename.New(filename.Options{Origin: "https://x", Map: []filename.Map{m}}); err == nil {
			t.Errorf("New(%+v) succeeded", m)
		}
	}
}
