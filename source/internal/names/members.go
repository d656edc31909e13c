package names

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	ManifestFile = "manifest.xml" // the name of the manifest in a package (RS-RDM-02)
	otherDir     = "other/"       // in it lie files whose URIs are not below the set's own place
	ClashDir     = "~"            // begins the directory of a file whose own name is taken

	maxSegment = 200  // bytes of one segment: file systems end at 255
	maxName    = 1000 // bytes of a name: what unpacks a package has limits of its own
)

// Members names the files of one package: the decoded path of the URI below the
// place of the set, changed where not every system could unpack it, and unique,
// also on systems that ignore case (RS-ZIP-03).
type Members struct {
	place Place
	seed  maphash.Seed
	used  map[uint64]bool // by hash of the folded name: true is a file, false a directory
}

func NewMembers(place Place) *Members {
	n := &Members{place: place, seed: maphash.MakeSeed(), used: make(map[uint64]bool)}
	n.take(ManifestFile)
	return n
}

// Name returns the name for the resource at uri. It returns each name once.
func (n *Members) Name(uri string) string {
	name := n.plain(uri)
	if len(name) <= maxName && n.take(name) {
		return name
	}
	if len(name) > maxName {
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	for again := ""; ; again += "\x00" { // ends at once but for those who name their resources after hashes of others
		sum := sha256.Sum256([]byte(uri + again))
		if name := ClashDir + hex.EncodeToString(sum[:16]) + "/" + name; n.take(name) {
			return name
		}
	}
}

// plain returns the name for uri, whether or not it is in use.
func (n *Members) plain(uri string) string {
	if path, _, ok := n.place.Find(uri); ok {
		return SafeName(path)
	}
	if _, rest, ok := strings.Cut(uri, "://"); ok {
		return otherDir + SafeName(rest)
	}
	return otherDir + SafeName(uri)
}

// take marks name as used, unless it or a part of it is used otherwise.
func (n *Members) take(name string) bool {
	folded := fold(name)
	for i := 0; ; {
		j := strings.IndexByte(folded[i:], '/')
		if j < 0 {
			break
		}
		if file, used := n.used[n.hash(folded[:i+j])]; used && file {
			return false
		}
		i += j + 1
	}
	if _, used := n.used[n.hash(folded)]; used {
		return false
	}
	for i, c := range []byte(folded) {
		if c == '/' {
			n.used[n.hash(folded[:i])] = false
		}
	}
	n.used[n.hash(folded)] = true
	return true
}

func (n *Members) hash(s string) uint64 { return maphash.String(n.seed, s) }

// fold returns the same string for all names that a system may treat as equal.
func fold(s string) string {
	ascii := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(s)
	}
	return norm.NFC.String(strings.Map(foldRune, norm.NFD.String(s)))
}

// foldRune returns the least of the characters that differ from r in case only.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// SafeName decodes a path and makes it a name: characters that are not allowed
// become ~XX, and segments that would be empty or lead elsewhere begin with ~.
func SafeName(path string) string {
	if plainName(path) {
		return path
	}
	var b strings.Builder
	for segment := range strings.SplitSeq(path, "/") {
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(safeSegment(segment))
	}
	return b.String()
}

// plainName reports whether path is a name as it is.
func plainName(path string) bool {
	start := 0
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			if !plainByte[path[i]] {
				return false
			}
			continue
		}
		if n := i - start; n == 0 || n > maxSegment || path[i-1] == '.' {
			return false
		}
		start = i + 1
	}
	return true
}

// plainByte marks the characters that need no change in a name.
var plainByte = func() (t [256]bool) {
	for c := '!'; c < 0x7f; c++ {
		t[c] = !strings.ContainsRune(`%<>:"|?*\/`, c)
	}
	return t
}()

func safeSegment(segment string) string {
	var decoded []byte
	for i := 0; i < len(segment); i++ {
		if segment[i] == '%' && i+2 < len(segment) {
			if c, err := strconv.ParseUint(segment[i+1:i+3], 16, 8); err == nil {
				decoded = append(decoded, byte(c))
				i += 2
				continue
			}
		}
		decoded = append(decoded, segment[i])
	}
	var b strings.Builder
	for rest := decoded; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		last := size == len(rest)
		switch {
		case r == utf8.RuneError && size == 1, r < ' ', r == 0x7f, strings.ContainsRune(`%<>:"|?*\/`, r),
			!unicode.IsPrint(r) && r != ' ', last && (r == '.' || r == ' '):
			for _, c := range rest[:size] {
				b.WriteString("~" + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
			}
		default:
			b.Write(rest[:size])
		}
		rest = rest[size:]
	}
	name := b.String()
	if name == "" {
		return ClashDir
	}
	if len(name) > maxSegment {
		sum := sha256.Sum256([]byte(segment))
		cut := maxSegment - 40
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "~" + hex.EncodeToString(sum[:16])
	}
	return name
}
