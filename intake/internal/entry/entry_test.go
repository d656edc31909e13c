package entry

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

const emptyMD5, emptySHA256 = "d41d8cd98f00b204e9800998ecf8427e", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestDecodeEntry(t *testing.T) {
	t.Parallel()
	modified, err := resourcesync.ParseDatetime("2024-05-17")
	if err != nil {
		t.Fatal(err)
	}
	hashes, _ := resourcesync.ParseHashes("sha-256:" + emptySHA256 + " md5:" + emptyMD5)
	put := func(r catalog.Record) Entry { return Entry{Update: catalog.Update{Record: r}} }
	for _, tt := range []struct {
		name, text string
		want       Entry
	}{
		{"nothing", ` {} `, put(catalog.Record{Length: -1})},
		{"nulls", `{"uri":null,"lastmod":null,"length":null,"hash":null,"type":null,"encoding":null,"change":null,"links":null}`,
			put(catalog.Record{Length: -1})},
		{"uri", `{"uri":"http://x.example/a?b=%20"}`, put(catalog.Record{URI: "http://x.example/a?b=%20", Length: -1})},
		{"escapes", `{"uri":"http:\/\/x.example\u002fa"}`, put(catalog.Record{URI: "http://x.example/a", Length: -1})},
		{"content", `{"lastmod":"2024-05-17T09:30:00.1234567+02:00","length":0,"type":"text/html; charset=utf-8","encoding":"gzip"}`,
			put(catalog.Record{Lastmod: time.Date(2024, 5, 17, 7, 30, 0, 123456000, time.UTC), Type: "text/html; charset=utf-8", Encoding: "gzip"})},
		{"hash", `{"hash":"SHA256:` + strings.ToUpper(emptySHA256) + `  md5:` + emptyMD5 + `"}`, put(catalog.Record{Length: -1, Hashes: hashes})},
		{"hashes", `{"hash":{"sha-256":"` + emptySHA256 + `","md5":"1B2M2Y8AsgTpgAmY7PhCfg=="}}`, put(catalog.Record{Length: -1, Hashes: hashes})},
		{"stated", `{"uri":"http://x","change":"created"}`,
			Entry{catalog.Update{Record: catalog.Record{URI: "http://x", Length: -1}}, resourcesync.Created}},
		{"deleted", `{"uri":"urn:x","change":"deleted","length":7,"type":"text/plain"}`,
			Entry{catalog.Update{Record: catalog.Record{URI: "urn:x"}, Deleted: true}, resourcesync.Deleted}},
		{"links", `{"links":[{"rel":"Duplicate","href":"ftp://m.example/a","pri":1},
			{"rel":"describedby","href":"http://x.example/m","type":"application/xml","modified":"2024-05-17","length":0,"hash":"md5:` + emptyMD5 + `"},
			{"rel":"http://www.openarchives.org/rs/terms/patch","href":"http://x.example/p","type":"application/json-patch+json"}]}`,
			put(catalog.Record{Length: -1, Links: []resourcesync.Link{
				{Rel: "duplicate", Href: "ftp://m.example/a", Pri: 1},
				{Rel: "describedby", Href: "http://x.example/m", Type: "application/xml", Modified: modified, HasLength: true, Hashes: hashes[1:]},
				{Rel: resourcesync.RelPatch, Href: "http://x.example/p", Type: "application/json-patch+json"},
			}})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode([]byte(tt.text))
			if err != nil {
				t.Fatalf("decodeEntry(%s): %v", tt.text, err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Entry{}), cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a == b })); diff != "" {
				t.Errorf("decodeEntry(%s): (-want +got)\n%s", tt.text, diff)
			}
		})
	}
}

func TestDecodeEntryErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{``, `byte 0: malformed JSON: ends where an object should be`},
		{`[]`, `byte 0: is an array, want an object`},
		{`nonsense`, `byte 0: malformed JSON: "nonsense" where an object should be`},
		{`null`, `byte 0: is null, want an object`},
		{`true`, `byte 0: is a boolean, want an object`},
		{`{"uri":"urn:x"`, `byte 14: malformed JSON: ends where a comma or } should be`},
		{`{"uri":"urn:x",}`, `byte 15: malformed JSON: '}' where the name of a field should be`},
		{`{"uri":"http://x"} x`, `byte 19: malformed JSON: 'x' where the end should be`},
		{"{\"uri\":\"urn:\n\"}", `byte 12: malformed JSON: '\n' where an escape sequence should be`},
		{`{"type":"\ud800"}`, `byte 9: malformed JSON: half a surrogate pair`},
		{"{\"type\":\"\xff\"}", `byte 9: malformed JSON: a string that is not UTF-8`},
		{`{"uri":7}`, `byte 7: uri: is a number, want a string`},
		{`{"URI":"urn:x"}`, `byte 1: unknown field "URI"; known are uri, lastmod, length, hash, type, encoding, change, links, foreign`},
		{`{"uri":"urn:x","uri":"urn:y"}`, `byte 15: uri: is there twice`},
		{`{"uri":"/a"}`, `byte 1: uri: "/a" is no absolute URI`},
		{`{"uri":"http:///a"}`, `byte 1: uri: "http:///a" names no host`},
		{`{"uri":"http://x.example:b/"}`, `byte 1: uri: "http://x.example:b/" is no absolute URI: invalid port ":b" after host`},
		{`{"uri":"http://x.example/é"}`, `byte 1: uri: "http://x.example/é" has the character 'é', which must be percent-encoded in a URI`},
		{`{"uri":"http://x.example/%zz"}`, `byte 1: uri: "http://x.example/%zz" is no absolute URI: invalid URL escape "%zz"`},
		{`{"lastmod":"yesterday"}`, `byte 1: lastmod: "yesterday" is no W3C datetime, such as 2024-05-17T09:30:00Z`},
		{`{"length":-1}`, `byte 10: length: "-1" is no whole number from 0 to 9223372036854775807`},
		{`{"length":1.5}`, `byte 10: length: "1.5" is no whole number from 0 to 9223372036854775807`},
		{`{"length":"7"}`, `byte 10: length: is a string, want a number`},
		{`{"hash":"crc32:00"}`, `byte 1: hash: "crc32:00" is no hash of a known algorithm, such as sha-256:…, md5:…`},
		{`{"hash":{"md5":"00"}}`, `byte 1: hash: "md5:00": the digest is neither hex nor base64 of the right length`},
		{`{"hash":"md5:` + emptyMD5 + ` md5:` + emptyMD5 + `"}`, `byte 1: hash: two md5 digests`},
		{`{"type":"text"}`, `byte 1: type: "text" is no media type, such as text/html`},
		{`{"type":"text/html "}`, `byte 0: type "text/html " is no media type (RS-TYPE-01)`},
		{`{"encoding":"gzip,"}`, `byte 0: encoding "gzip," is no list of content codings (RS-ENC-01)`},
		{`{"change":"moved"}`, `byte 1: change: "moved" is none of created, updated, deleted`},
		{`{"links":{}}`, `byte 9: links: is an object, want an array`},
		{`{"links":[7]}`, `byte 10: links[0]: is a number, want an object`},
		{`{"links":[{"rel":"via"}]}`, `byte 10: links[0].href: is missing`},
		{`{"links":[{"href":"urn:x"}]}`, `byte 10: links[0].rel: is missing`},
		{`{"links":[{"rel":"via","href":"urn:x"},{"rel":"via","href":"x"}]}`, `byte 52: links[1].href: "x" is no absolute URI`},
		{`{"links":[{"rel":"duplicate","href":"urn:x","pri":0}]}`, `byte 44: links[0].pri: 0 is not between 1 and 999999 (RS-PRI-01)`},
		{`{"links":[{"rel":"via","href":"urn:x","path":"/x"}]}`,
			`byte 38: links[0]: unknown field "path"; known are rel, href, type, encoding, modified, length, hash, pri, foreign`},
		{`{"links":[{"rel":"up","href":"urn:x"}]}`, `byte 0: the entry may not have link up in a document of this kind (RS-MD-12)`},
		{`{"links":[{"rel":"a b","href":"urn:x"}]}`, `byte 0: links[0]: relation "a b" is neither registered with IANA nor a URI`},
		{`{"links":[{"rel":"` + resourcesync.RelPatch + `","href":"urn:x"}]}`, `byte 0: the patch link lacks type (RS-REL-31)`},
		{`{"links":[` + strings.Repeat(`{"rel":"via","href":"urn:x"},`, 1001) + `]}`, `byte 1: links: are more than 1000`},
	} {
		_, err := Decode([]byte(tt.text))
		if err == nil || err.Error() != tt.want {
			t.Errorf("decodeEntry(%.80s): %v, want %s", tt.text, err, tt.want)
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("decodeEntry(%.80s): the error is a %T", tt.text, err)
		}
	}
}

// FuzzDecodeEntry sees to it that what is taken is JSON, and can be published
// as a resource and as a change.
func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte(`{"uri":"http://x.example/a","lastmod":"2024-05-17T09:30:00Z","length":7,"hash":"md5:` + emptyMD5 + `","type":"a/b","encoding":"gzip"}`))
	f.Add([]byte(`{"uri":"urn:\u0061","change":"deleted","hash":{"md5":"1B2M2Y8AsgTpgAmY7PhCfg=="},"links":null}`))
	f.Add([]byte(`{"links":[{"rel":"Via","href":"urn:x","modified":"2024","length":0,"pri":9},{"rel":"urn:y","href":"urn:z"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := Decode(text)
		if err != nil {
			place, ok := errors.AsType[*Error](err)
			if !ok || place.Offset < 0 || place.Offset > len(text) {
				t.Fatalf("decodeEntry(%q): %#v", text, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("decodeEntry(%q) takes what is no JSON", text)
		}
		if e.Update.URI == "" {
			e.Update.URI = "urn:x"
		}
		r := e.Update.Record
		entry := resourcesync.Entry{Loc: r.URI, Metadata: resourcesync.Metadata{Change: resourcesync.Updated, Datetime: resourcesync.NewDatetime(time.Now())}}
		if e.Update.Deleted {
			entry.Change = resourcesync.Deleted
		} else {
			entry.Lastmod, entry.Hashes, entry.Length, entry.HasLength = resourcesync.NewDatetime(r.Lastmod), r.Hashes, max(r.Length, 0), r.Length >= 0
			entry.Type, entry.Encoding, entry.Links = r.Type, r.Encoding, r.Links
		}
		if err := resourcesync.CheckEntry(resourcesync.ChangeList, &entry); err != nil {
			t.Fatalf("decodeEntry(%q) takes what no Change List can state: %v", text, err)
		}
	})
}
