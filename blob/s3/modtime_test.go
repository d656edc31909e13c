package s3

import (
	"testing"
	"time"
)

func FuzzModTime(f *testing.F) {
	for _, s := range []string{"1354040105.123456789", "-1.5", "0", "-0.000000001", "12.", "1e9", "99999999999999999999"} {
		f.Add(s, int64(0))
	}
	f.Fuzz(func(t *testing.T, s string, nanos int64) {
		if got, ok := parseModTime(s); ok {
			if again, ok := parseModTime(formatModTime(got)); !ok || !again.Equal(got) {
				t.Errorf("%q is %v, then %v", s, got, again)
			}
		}
		want := time.Unix(0, nanos)
		if got, ok := parseModTime(formatModTime(want)); !ok || !got.Equal(want) {
			t.Errorf("%v is written %s, read %v", want, formatModTime(want), got)
		}
	})
}
