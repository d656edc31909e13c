package validate_test

import (
	"net/http"
	"strings"
	"testing"

	"lockstep/validate"
	"lockstep/validate/finding"
)

// A smallSource is a Source about one resource, maps/b. Each field is what follows the
// capability in a document, and its entries; a document without is not there.
type smallSource struct {
	list, changes, dump, manifest, repeats, repeated string
}

// site returns the files of the Source.
func (s *smallSource) site() *site {
	files := &site{texts: map[string]string{}, headers: map[string]http.Header{}, sent: map[string]int{}}
	doc := func(name, capability, rest, up string) {
		attributes, entries, _ := strings.Cut(rest, ">")
		files.texts[name] = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
` + up + `<rs:md capability="` + capability + `" ` + attributes + `/>` + entries + "</urlset>\n"
		files.order = append(files.order, name)
	}
	const up = `<rs:ln rel="up" href="` + base + `cap.xml"/>`
	capabilities := ""
	for _, d := range []struct{ name, capability, rest string }{
		{"list.xml", "resourcelist", s.list}, {"changes.xml", "changelist", s.changes}, {"dump.xml", "resourcedump", s.dump},
		{"dump.zip/manifest.xml", "resourcedump-manifest", s.manifest}, {"repeats.xml", "changedump", s.repeats}, {"repeats.zip/manifest.xml", "changedump-manifest", s.repeated},
	} {
		if d.rest == "" {
			continue
		}
		doc(d.name, d.capability, d.rest, up)
		if !strings.Contains(d.name, "/") {
			capabilities += `<url><loc>` + base + d.name + `</loc><rs:md capability="` + d.capability + `"/></url>`
		}
	}
	for _, name := range []string{"dump.zip/3", "dump.zip/4", "repeats.zip/3"} {
		files.texts[name] = strings.Repeat("x", int(name[len(name)-1]-'0'))
		files.order = append(files.order, name)
	}
	doc("cap.xml", "capabilitylist", ">"+capabilities, `<rs:ln rel="up" href="`+base+`.well-known/resourcesync"/>`)
	doc(".well-known/resourcesync", "description", `><url><loc>`+base+`cap.xml</loc><rs:md capability="capabilitylist"/></url>`, "")
	return files
}

const (
	oneOf   = `<url><loc>` + base + `maps/b</loc><rs:md `
	created = oneOf + `change="created" `
	updated = oneOf + `change="updated" `
	deleted = oneOf + `change="deleted" `
	three   = oneOf + `length="3"/></url>`
	packed3 = oneOf + `length="3" path="/3"/></url>`
	packed4 = oneOf + `length="4" path="/4"/></url>`
	dumpZIP = `<url><loc>` + base + `dump.zip</loc><rs:md type="application/zip" length="{length:dump.zip}"/></url>`
	monthly = `<url><loc>` + base + `repeats.zip</loc><rs:md type="application/zip" length="{length:repeats.zip}" from="2024-05-01T00:00:00Z" until="2024-06-01T00:00:00Z"/></url>`
)

// TestUnknownChanges: documents contradict each other only if no change that may have
// happened explains it (RS-MD-02, RS-MD-03): one outside the time that a Change List
// covers, one without a time, or one whose time has a coarse unit (RS-DT-04).
func TestUnknownChanges(t *testing.T) {
	t.Parallel()
	const may = `from="2024-05-01T00:00:00Z">`
	tests := []struct {
		name string
		s    smallSource
		want string // the rule that is broken, and a part of the message; "": none
	}{
		{"created before the list, but not listed", smallSource{list: `at="2024-05-03T00:00:00Z">`, changes: may + created + `datetime="2024-05-01T05:00:00Z"/></url>`}, "RS-CL-03 is not in the Resource List"},
		{"the Change List ends before the list", smallSource{list: `at="2024-05-03T00:00:00Z">`, changes: `from="2024-05-01T00:00:00Z" until="2024-05-02T00:00:00Z">` + created + `datetime="2024-05-01T05:00:00Z"/></url>`}, ""},
		{"it ends while the list is made", smallSource{list: `at="2024-05-03T00:00:00Z" completed="2024-05-03T02:00:00Z">`, changes: `from="2024-05-01T00:00:00Z" until="2024-05-03T01:00:00Z">` + created + `datetime="2024-05-01T05:00:00Z"/></url>`}, ""},
		{"it ends after the list", smallSource{list: `at="2024-05-03T00:00:00Z" completed="2024-05-03T02:00:00Z">`, changes: `from="2024-05-01T00:00:00Z" until="2024-05-03T03:00:00Z">` + created + `datetime="2024-05-01T05:00:00Z"/></url>`}, "RS-CL-03 is not in the Resource List"},
		{"list and dump, the Change List ends before both", smallSource{list: `at="2024-05-03T00:00:00Z">` + three, dump: `at="2024-05-05T00:00:00Z">` + dumpZIP, manifest: `at="2024-05-05T00:00:00Z">` + packed4,
			changes: `from="2024-05-01T00:00:00Z" until="2024-05-02T00:00:00Z">`}, ""},
		{"list and dump, without a change", smallSource{list: `at="2024-05-03T00:00:00Z">` + three, dump: `at="2024-05-05T00:00:00Z">` + dumpZIP, manifest: `at="2024-05-05T00:00:00Z">` + packed4, changes: may}, "RS-CL-03 is not that of the Resource List"},
		{"list and dump of one instant, the Change List begins later", smallSource{list: `at="2024-05-03T00:00:00Z" completed="2024-05-03T01:00:00Z">` + three, dump: `at="2024-05-03T00:00:00Z" completed="2024-05-03T02:00:00Z">` + dumpZIP,
			manifest: `at="2024-05-03T00:00:00Z">` + packed4, changes: `from="2024-05-04T00:00:00Z">`}, ""},
		{"list and dump of one instant, without a Change List", smallSource{list: `at="2024-05-03T00:00:00Z">` + three, dump: `at="2024-05-03T00:00:00Z">` + dumpZIP, manifest: `at="2024-05-03T00:00:00Z">` + packed4}, "RS-CL-03 is not that of the Resource List"},

		{"updated, no time is stated", smallSource{list: `at="2024-05-03T00:00:00Z">` + oneOf + `length="9"/></url>`, changes: may + created + `datetime="2024-05-01T05:00:00Z" length="3"/></url>` + updated + `length="9"/></url>`}, ""},
		{"deleted, no time is stated", smallSource{list: `at="2024-05-03T00:00:00Z">`, changes: may + created + `datetime="2024-05-01T05:00:00Z"/></url>` + deleted + `/></url>`}, ""},
		{"only the Change Dump states the time", smallSource{changes: may + created + `length="3"/></url>`, repeats: may + monthly,
			repeated: `from="2024-05-01T00:00:00Z" until="2024-06-01T00:00:00Z">` + created + `datetime="2024-05-01T05:00:00Z" length="3" path="/3"/></url>`}, ""},
		{"only the Change List states the time", smallSource{changes: may + created + `datetime="2024-05-01T05:00:00Z" length="3"/></url>`, repeats: may + monthly,
			repeated: `from="2024-05-01T00:00:00Z" until="2024-06-01T00:00:00Z">` + created + `length="3" path="/3"/></url>`}, ""},
		{"a change that the Change Dump lacks", smallSource{changes: may + created + `datetime="2024-05-01T05:00:00Z" length="3"/></url>` + updated + `datetime="2024-05-01T06:00:00Z" length="3"/></url>`, repeats: may + monthly,
			repeated: `from="2024-05-01T00:00:00Z" until="2024-06-01T00:00:00Z">` + created + `datetime="2024-05-01T05:00:00Z" length="3" path="/3"/></url>`}, "RS-CDM-02 is not in the Change Dump"},

		{"created on the day of the list", smallSource{list: `at="2024-05-01T02:00:00Z">`, changes: may + created + `datetime="2024-05-01"/></url>`}, ""},
		{"created on the day before the list", smallSource{list: `at="2024-05-02T00:00:00Z">`, changes: may + created + `datetime="2024-05-01"/></url>`}, "RS-CL-03 is not in the Resource List"},
		{"created in the second of the list", smallSource{list: `at="2024-05-01T02:00:05.5Z">`, changes: may + created + `datetime="2024-05-01T02:00:05Z"/></url>`}, ""},
		{"updated on the day on which the list was completed", smallSource{list: `at="2024-05-02T00:00:00Z" completed="2024-05-03">` + three,
			changes: may + created + `datetime="2024-05-01T05:00:00Z" length="9"/></url>` + updated + `datetime="2024-05-03T05:00:00Z" length="3"/></url>`}, ""},
		{"updated on the day after", smallSource{list: `at="2024-05-02T00:00:00Z" completed="2024-05-03">` + three,
			changes: may + created + `datetime="2024-05-01T05:00:00Z" length="9"/></url>` + updated + `datetime="2024-05-04T05:00:00Z" length="3"/></url>`}, "RS-CL-03 is not that since the change"},
		{"which change came last is not known", smallSource{list: `at="2024-05-03T00:00:00Z">` + three,
			changes: may + updated + `datetime="2024-05-01T05:00:00Z" length="9"/></url>` + updated + `datetime="2024-05-01" length="3"/></url>`}, ""},
		{"fractions of seconds in the Change Dump alone", smallSource{changes: may + created + `datetime="2024-05-02T00:00:00Z" length="3"/></url>`, repeats: may + monthly,
			repeated: `from="2024-05-01T00:00:00Z" until="2024-06-01T00:00:00Z">` + created + `datetime="2024-05-02T00:00:00.25Z" length="3" path="/3"/></url>`}, ""},
		{"the second in which the document begins", smallSource{changes: `from="2024-05-01T02:00:05.5Z">` + created + `datetime="2024-05-01T02:00:05Z"/></url>`}, ""},
		{"the day on which the document begins", smallSource{changes: `from="2024-05-01T02:00:05Z">` + created + `datetime="2024-05-01"/></url>`}, ""},
		{"the day before", smallSource{changes: `from="2024-05-02T00:00:00Z">` + created + `datetime="2024-05-01"/></url>`}, "RS-EM-04 "},
		{"the day on which the document ends", smallSource{changes: `from="2024-05-01T00:00:00Z" until="2024-05-02">` + created + `datetime="2024-05-02T10:00:00Z"/></url>`}, ""},
		{"the day after", smallSource{changes: `from="2024-05-01T00:00:00Z" until="2024-05-02">` + created + `datetime="2024-05-03T00:00:00Z"/></url>`}, "RS-EM-04 "},
		{"an hour, then its day", smallSource{changes: may + created + `datetime="2024-05-01T10:00:00Z"/></url>` + updated + `datetime="2024-05-01"/></url>`}, ""},
		{"an hour, its day, then an earlier hour", smallSource{changes: may + created + `datetime="2024-05-01T10:00:00Z"/></url>` + updated + `datetime="2024-05-01"/></url>` + updated + `datetime="2024-05-01T09:00:00Z"/></url>`}, "RS-CHL-03 "},
		{"an hour, then the day before", smallSource{changes: may + created + `datetime="2024-05-02T10:00:00Z"/></url>` + updated + `datetime="2024-05-01"/></url>`}, "RS-CHL-03 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := validate.Source(t.Context(), tt.s.site().open, base+".well-known/resourcesync", validate.Options{Settle: 1, TempDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			rule, message, _ := strings.Cut(tt.want, " ")
			found := false
			for _, f := range r.Findings {
				switch {
				case f.Level != finding.Error:
				case tt.want != "" && f.Rule == rule && strings.Contains(f.Message, message):
					found = true
				default:
					t.Errorf("finding %s", f)
				}
			}
			if !found && tt.want != "" {
				t.Errorf("findings %v, want %q", r.Findings, tt.want)
			}
		})
	}
}
