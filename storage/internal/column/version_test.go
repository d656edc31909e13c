package column

import (
	"math"
	"testing"
	"time"

	"lockstep/memento"
)

// FuzzVersion parses any bytes; a parsed version must be encoded and parsed
// again as the same. The encoding is internal to the package.
func FuzzVersion(f *testing.F) {
	at := time.Unix(1_700_000_000, 1000).UTC()
	f.Add(at.UnixMicro(), []byte{})
	f.Add(at.UnixMicro(), []byte{versionFormat})
	for _, v := range []memento.Version{
		{At: at, Event: at, Gone: true, Length: -1},
		{At: at, Event: at.Add(5), Seq: math.MaxInt64, Length: math.MaxInt64, Lastmod: at, Type: "a/b", Encoding: "gzip", Digest: [32]byte{1, 2, 3}},
		{At: at, Event: at, Lastmod: time.Unix(-5, 0), Type: "\x00\xff"},
		{At: at, Event: at},
	} {
		f.Add(at.UnixMicro(), AppendVersion(nil, &v))
	}
	f.Fuzz(func(t *testing.T, at int64, b []byte) {
		if at < math.MinInt64/4 || at > math.MaxInt64/4 {
			return // no time.Time has that value
		}
		v, again := memento.Version{URI: "u"}, memento.Version{URI: "u"}
		if err := ParseVersion(at, b, &v); err != nil {
			return
		}
		if err := ParseVersion(at, AppendVersion(nil, &v), &again); err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		if v != again {
			t.Errorf("first %+v, again %+v", v, again)
		}
	})
}
