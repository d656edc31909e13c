package resourcesync_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

const (
	testMD5    = "md5:098f6bcd4621d373cade4e832627b4f6"
	testSHA256 = "sha-256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	testHashes = testMD5 + " " + testSHA256
)

// hashTests are hash attributes, their usable values, and the number of
// deviations.
var hashTests = []struct {
	name, text, want string
	liberties        int
}{
	{"none", "", "", 0},
	{"two", testHashes, testHashes, 0},
	{"all white space", "\t" + testMD5 + " \r\n\t " + testSHA256 + "\n", testHashes, 0},
	{"no-break space is none", testMD5 + "\u00a0", "", 1},
	{"upper case", "MD5:098F6BCD4621D373CADE4E832627B4F6", testMD5, 0},
	{"alias", "sha256:" + testSHA256[8:], testSHA256, 1},
	{"of section 27", "md5:098F6BCD4621D373CADE4E832627B4F6\n   sha256:" + testSHA256[8:] + " blake3:00", testHashes, 1},
	{"all algorithms", all5, all5, 0},
	{"all aliases", strings.ReplaceAll(all5, "sha-", "SHA"), all5, 4},
	{"unknown algorithm", "blake3:00", "", 0},
	{"no algorithm", "098f6bcd4621d373cade4e832627b4f6", "", 1},
	{"empty algorithm", ":098f6bcd4621d373cade4e832627b4f6", "", 0},
	{"base64", "md5:CY9rzUYh03PK3k6DJie09g==", testMD5, 1},
	{"base64 without padding", "md5:CY9rzUYh03PK3k6DJie09g", testMD5, 1},
	{"base64url", "sha-256:n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg", testSHA256, 1},
	{"hex cut short", "md5:098f6bcd", "", 1},
	{"hex too long", testMD5 + "00", "", 1},
	{"no digest", "md5:", "", 1},
	{"no hex", "md5:zz8f6bcd4621d373cade4e832627b4f6", "", 1},
	{"the same twice", testMD5 + " " + testMD5, testMD5, 1},
	{"the first wins", testMD5 + " md5:d41d8cd98f00b204e9800998ecf8427e", testMD5, 1},
	{"one of two usable", "md5:00 " + testSHA256, testSHA256, 1},
	{"too many", strings.Repeat("x:00 ", 16) + testMD5, "", 1},
}

var all5 = strings.Join([]string{
	"md5:" + strings.Repeat("01", 16), "sha-1:" + strings.Repeat("23", 20), "sha-256:" + strings.Repeat("45", 32),
	"sha-384:" + strings.Repeat("67", 48), "sha-512:" + strings.Repeat("ef", 64),
}, " ")

// RS-HASH-01, RS-HASH-03, RS-HASH-04; the Reader parses the same.
func TestParseHashes(t *testing.T) {
	t.Parallel()
	for _, tt := range hashTests {
		hs, liberties := resourcesync.ParseHashes(tt.text)
		if hs.String() != tt.want || len(liberties) != tt.liberties {
			t.Errorf("%s: ParseHashes(%q) = %q with %q, want %q with %d", tt.name, tt.text, hs, liberties, tt.want, tt.liberties)
		}
		if tt.text == "" {
			continue
		}
		got, err := readAll(inRoot(upLink+listMD+`<url><loc>http://x/</loc><rs:md hash="`+tt.text+`"/></url>`), resourcesync.ReaderOptions{})
		if err != nil || len(got.entries) != 1 || got.entries[0].Hashes.String() != tt.want || len(got.warnings) != tt.liberties {
			t.Errorf("%s: read %+v, %v, want %q and %d warnings", tt.name, got, err, tt.want, tt.liberties)
		}
	}
}

func TestParseHash(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{testMD5: true, testHashes: false, "": false, "md5:00": false, "x:00": false, testMD5 + " x:00": false} {
		h, err := resourcesync.ParseHash(text)
		if (err == nil) != ok || ok && h.String() != text {
			t.Errorf("ParseHash(%q) = %v, %v", text, h, err)
		}
	}
}

// RS-HASH-06.
func TestHashesCompare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, a, b string
		common     int
		differs    resourcesync.Algorithm
	}{
		{"equal", testHashes, testHashes, 2, 0},
		{"other order", testHashes, testSHA256 + " " + testMD5, 2, 0},
		{"one in common", testHashes, testSHA256, 1, 0},
		{"none in common", testMD5, testSHA256, 0, 0},
		{"nothing known", "", testSHA256, 0, 0},
		{"one of two differs", testHashes, "md5:d41d8cd98f00b204e9800998ecf8427e " + testSHA256, 2, resourcesync.MD5},
	}
	for _, tt := range tests {
		a, _ := resourcesync.ParseHashes(tt.a)
		b, _ := resourcesync.ParseHashes(tt.b)
		if common, differs := a.Compare(b); common != tt.common || differs != tt.differs {
			t.Errorf("%s: Compare = %d, %v, want %d, %v", tt.name, common, differs, tt.common, tt.differs)
		}
	}
}

func TestHasher(t *testing.T) {
	t.Parallel()
	h := resourcesync.NewHasher(resourcesync.SHA256, resourcesync.MD5, resourcesync.MD5, 99)
	for range 2 {
		for _, piece := range []string{"te", "", "st"} {
			if n, err := h.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if got := h.Sum().String(); got != testHashes || h.Size() != 4 {
			t.Errorf("Sum = %q of %d bytes, want %q of 4", got, h.Size(), testHashes)
		}
		h.Reset()
	}
	const emptySums = "md5:d41d8cd98f00b204e9800998ecf8427e sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709 " +
		"sha-256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	empty, _ := resourcesync.ParseHashes(emptySums)
	if got := empty.NewHasher().Sum(); got.String() != emptySums {
		t.Errorf("digests of nothing = %q", got)
	}
	if hs := resourcesync.NewHasher().Sum(); hs != nil {
		t.Errorf("digests by no algorithm = %v", hs)
	}

	big := bytes.Repeat([]byte("0123456789abcdef"), 10_000) // more than the Hasher processes at a time
	h = resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256, resourcesync.SHA384, resourcesync.SHA512)
	_, _ = h.Write(big) // never fails
	m, s2, s3, s5 := md5.Sum(big), sha256.Sum256(big), sha512.Sum384(big), sha512.Sum512(big)
	for a, want := range map[resourcesync.Algorithm][]byte{
		resourcesync.MD5: m[:], resourcesync.SHA256: s2[:], resourcesync.SHA384: s3[:], resourcesync.SHA512: s5[:],
	} {
		if got := h.Sum().Get(a); got != string(want) {
			t.Errorf("%v = %x, want %x", a, got, want)
		}
	}
}

func TestHasherSplit(t *testing.T) {
	t.Parallel()
	for _, algs := range [][]resourcesync.Algorithm{nil, {resourcesync.MD5}, {resourcesync.SHA256, resourcesync.MD5, resourcesync.SHA512}} {
		whole, split := resourcesync.NewHasher(algs...), resourcesync.NewHasher(algs...)
		for range 3 {
			_, _ = whole.Write([]byte("some bytes"))
		}
		_, _ = split.Write([]byte("some bytes"))
		for _, w := range split.Split() {
			for range 2 {
				_, _ = w.Write([]byte("some bytes"))
			}
		}
		if got, want := split.Sum().String(), whole.Sum().String(); got != want || split.Size() != whole.Size() {
			t.Errorf("Split of %v: %s of %d bytes, want %s of %d", algs, got, split.Size(), want, whole.Size())
		}
	}
}
