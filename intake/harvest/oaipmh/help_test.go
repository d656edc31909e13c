package oaipmh_test

import (
	"strings"
	"testing"

	"lockstep/intake"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reported checks that some problem has these words.
func reported(t *testing.T, ps intake.Problems, words string) {
	t.Helper()
	for _, p := range ps.First {
		if strings.Contains(p.String(), words) {
			return
		}
	}
	t.Errorf("none of %v says %q", ps.First, words)
}
