package memento_test

import (
	"testing"
	"time"

	"lockstep/memento"
)

// A datetime has only one valid form (ME-HD-01).
func FuzzParseDatetime(f *testing.F) {
	f.Add("Tue, 20 Mar 2001 20:35:00 GMT")
	f.Add(" Tue, 20 Mar 2001 20:35:00 gmt")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT\t")
	f.Fuzz(func(t *testing.T, s string) {
		at, err := memento.ParseDatetime(s)
		if err != nil {
			return
		}
		again, err := memento.ParseDatetime(memento.FormatDatetime(at))
		if err != nil || !again.Equal(at) || len(memento.FormatDatetime(at)) != len(time.RFC1123) {
			t.Errorf("%q is %v, then %v, %v", s, at, again, err)
		}
	})
}
