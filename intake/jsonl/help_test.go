package jsonl_test

import "testing"

const set = "https://example.org/resourcesync/main/capabilitylist.xml"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
