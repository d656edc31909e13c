package provenance

import (
	"errors"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// hashed returns the hashes of a text by some algorithms.
func hashed(text string, algs ...resourcesync.Algorithm) resourcesync.Hashes {
	h := resourcesync.NewHasher(algs...)
	_, _ = h.Write([]byte(text))
	return h.Sum()
}

// TestDecisionTable has a case for every line of the table in the guide, and for what
// distinguishes it from the lines below it.
func TestDecisionTable(t *testing.T) {
	const sha, md5 = resourcesync.SHA256, resourcesync.MD5
	at := func(s string) resourcesync.Datetime {
		d, err := resourcesync.ParseDatetime(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	held := func(text string) content { return content{hashes: hashed(text, sha, md5), length: int64(len(text))} }
	stated := func(text, modified string) content {
		c := content{hashes: hashed(text, sha), length: int64(len(text)), typ: "text/plain"}
		if modified != "" {
			c.modified = at(modified)
		}
		return c
	}
	noHash := func(c content) content { c.hashes = nil; return c }
	serves := func(text, modified string) answer {
		a := answer{state: answered, whole: true, content: content{hashes: hashed(text, sha, md5), length: int64(len(text)), typ: "text/plain; charset=utf-8"}}
		if modified != "" {
			a.modified, a.date = at(modified), at("2026-06-01T00:00:00Z").Time()
		}
		return a
	}
	unread := func(length int64, modified string) answer {
		a := serves("", modified)
		a.whole, a.hashes, a.length = false, nil, length
		return a
	}
	with := func(a answer, change func(*answer)) answer { change(&a); return a }
	const then, later, before = "2026-05-01T10:00:00Z", "2026-05-02T10:00:00Z", "2026-04-01T10:00:00Z"
	gone, down := answer{state: absent, cause: "gone"}, answer{cause: "down"}
	tests := []struct {
		name   string
		held   content
		stated content
		found  answer
		want   Verdict
	}{
		{"same bytes", held("a"), stated("a", then), serves("a", then), Identical},
		{"same bytes, and nothing is stated", held("a"), content{length: -1}, serves("a", ""), Identical},
		{"same bytes, although the link states others", held("a"), stated("b", then), serves("a", then), Identical},
		{"same bytes, sent with a coding", held("a"), stated("a", then), with(serves("a", then), func(a *answer) { a.coding = "x" }), Identical},
		{"same bytes, of unknown length", content{hashes: hashed("a", sha), length: -1}, stated("a", then), serves("a", then), Identical},

		{"another hash than stated, which the origin has", held("b"), stated("a", then), serves("a", then), Altered},
		{"another hash than stated, and the origin has a third", held("b"), stated("a", then), serves("c", later), Altered},
		{"another hash than stated, and the origin has nothing", held("b"), stated("a", then), gone, Altered},
		{"another hash than stated, and no answer", held("b"), stated("a", then), down, Altered},
		{"only a weak hash is stated, and it is another", held("b"), content{hashes: hashed("a", md5), length: -1}, down, Altered},
		{"the strongest hash decides", held("a"), content{hashes: append(hashed("a", sha), hashed("b", md5)...), length: -1}, serves("c", ""), Changed},

		{"gone", held("a"), stated("a", then), gone, Gone},
		{"gone, and nothing is stated", held("a"), content{length: -1}, gone, Gone},
		{"gone, and only the length differs", held("a"), noHash(stated("bb", then)), gone, Gone},
		{"no answer", held("a"), stated("a", then), down, Unchecked},
		{"no answer, and only the length differs", held("a"), noHash(stated("bb", then)), down, Unchecked},

		{"damaged copy", content{hashes: hashed("a", md5), length: 1, doubt: errors.New("x")}, stated("a", then), serves("b", then), Unclear},

		{"length is not as stated, but that of the origin", held("a"), noHash(stated("bb", then)), serves("cc", later), Altered},
		{"length is not as stated, nor that of the origin", held("a"), noHash(stated("bb", then)), serves("ccc", ""), Unclear},
		{"length is not as stated, but the hash is", held("a"), content{hashes: hashed("a", sha), length: 2}, serves("cc", ""), Changed},

		{"modified later", held("a"), stated("a", then), serves("b", later), Changed},
		{"modified later, and not read", held("a"), stated("a", then), unread(100, later), Changed},
		{"modified later, no hash stated", held("a"), noHash(stated("a", then)), serves("b", later), Changed},
		{"another media type", held("a"), stated("a", then), with(serves("b", then), func(a *answer) { a.typ = "text/html" }), Unclear},
		{"a content coding", held("a"), stated("a", then), with(serves("b", then), func(a *answer) { a.coding = "gzip" }), Unclear},
		{"not modified, but other bytes", held("a"), stated("a", then), serves("b", then), Altered},
		{"not modified, but other bytes, no hash stated", held("a"), noHash(stated("a", then)), serves("b", then), Altered},
		{"not modified within the second", held("a"), stated("a", "2026-05-01T10:00:00.75Z"), serves("b", then), Altered},
		{"modified at the same time a moment ago", held("a"), stated("a", then), with(serves("b", then), func(a *answer) { a.date = at(then).Time().Add(30 * time.Second) }), Unclear},
		{"modified at the same time, and no clock", held("a"), stated("a", then), with(serves("b", then), func(a *answer) { a.date = time.Time{} }), Unclear},
		{"only the day is stated", held("a"), stated("a", "2026-05-01"), serves("b", "2026-05-01T00:00:00Z"), Unclear},
		{"no time, hash as stated", held("a"), stated("a", then), serves("b", ""), Changed},
		{"no stated time, hash as stated", held("a"), stated("a", ""), serves("b", then), Changed},
		{"modified before", held("a"), stated("a", then), serves("b", before), Unclear},
		{"no time, no hash stated", held("a"), noHash(stated("a", "")), serves("b", then), Unclear},
		{"nothing stated", held("a"), content{length: -1}, serves("b", ""), Unclear},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, cause := decide(&tt.held, &tt.stated, &tt.found)
			if got != tt.want || (cause == "") != (got == Identical) {
				t.Errorf("decide() = %s, %q; want %s", got, cause, tt.want)
			}
		})
	}
}
