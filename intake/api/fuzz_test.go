package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/intake/internal/entry"
)

// FuzzDecodeBatch checks that a batch is JSON or JSON Lines, that all of it can be
// applied, and that errors state a position.
func FuzzDecodeBatch(f *testing.F) {
	f.Add([]byte(`[{"uri":"http://a","length":1},{"uri":"http://b","change":"deleted"}]`), false)
	f.Add([]byte("{\"uri\":\"http://a\"}\r\n\n{\"uri\":\"http://b\",\"links\":[{\"rel\":\"via\",\"href\":\"http://c\"}]}"), true)
	f.Add([]byte(`[{"uri":"http://a"},{"a":[[[{"b":"\u00e4"}]]]},7,null,true]`), false)
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		const most = 100
		updates, err := decodeBatch(body, lines, most)
		if err != nil {
			p, ok := errors.AsType[*problem](err)
			if !ok || p.Status != http.StatusRequestEntityTooLarge && (len(p.Errors) == 0 || len(p.Errors) > maxPlaces || p.Count < len(p.Errors)) {
				t.Fatalf("decodeBatch(%q): %#v", body, err)
			}
			for _, e := range p.Errors {
				if e.Byte < 0 || e.Byte > len(body) || e.Detail == "" {
					t.Fatalf("decodeBatch(%q): error %+v", body, e)
				}
			}
			return
		}
		if !lines && !json.Valid(body) {
			t.Fatalf("decodeBatch(%q) takes what is no JSON", body)
		}
		n := 0
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); lines && len(line) > 0 {
				n++
				if !json.Valid(line) {
					t.Fatalf("decodeBatch(%q) takes what is no JSON", body)
				}
			}
		}
		if len(updates) > most || lines && n != len(updates) {
			t.Fatalf("decodeBatch(%q): %d updates", body, len(updates))
		}
		for i := range updates {
			if entry.CheckURI(updates[i].URI) != nil {
				t.Fatalf("decodeBatch(%q): update of %q", body, updates[i].URI)
			}
		}
	})
}

// FuzzKeyRecord sees to it that files of keys are read up to where they are
// whole, and that what is written is read back.
func FuzzKeyRecord(f *testing.F) {
	r := keyRecord{kind: keyAsked, at: time.UnixMicro(1), id: keyID{1}, request: [32]byte{2}, after: 300, changes: 1, uri: "http://x"}
	text := r.append(nil)
	r = keyRecord{kind: keyAnswered, at: time.UnixMicro(1), id: keyID{1}, request: [32]byte{2}, after: 300, status: 201, body: []byte("{}\n")}
	text = r.append(text)
	r = keyRecord{kind: keyDropped, at: time.UnixMicro(1), id: keyID{1}}
	f.Add(r.append(text))
	f.Add(text[:50])
	f.Fuzz(func(t *testing.T, text []byte) {
		var again []byte
		end, err := readKeyRecords(bytes.NewReader(text), func(offset int64, r keyRecord) {
			if offset != int64(len(again)) {
				t.Fatalf("a record at %d, want %d", offset, len(again))
			}
			written := r.append(nil)
			back, ok := parseKeyRecord(written[keyRecordHeader:])
			if diff := cmp.Diff(r, back, cmp.AllowUnexported(keyRecord{})); !ok || diff != "" {
				t.Fatalf("read back %v: %s", ok, diff)
			}
			again = append(again, text[offset:offset+int64(len(written))]...)
		})
		if err != nil || end > int64(len(text)) || end != int64(len(again)) {
			t.Fatalf("readKeyRecords: %d, %v", end, err)
		}
		if payload := text; len(payload) > 0 { // without a checksum in front, which chance seldom gets right
			if r, ok := parseKeyRecord(payload); ok {
				b := r.append(nil)
				if back, ok := parseKeyRecord(b[keyRecordHeader:]); !ok || cmp.Diff(r, back, cmp.AllowUnexported(keyRecord{})) != "" {
					t.Fatalf("%+v is read back as %+v", r, back)
				}
			}
		}
	})
}
