package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/validate/opener"
	"lockstep/validate/validatetest"
)

// opener opens what is published, and the resources behind it.
func (d *dumpWorld) opener() opener.Func {
	return opener.Named(baseURL, func(ctx context.Context, name string) (io.ReadCloser, error) {
		r, err := d.docs.Open(ctx, name)
		if err == nil {
			return r, nil
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		content, ok := d.now[d.opts.BaseURL+name]
		if !ok || !errors.Is(err, blob.ErrNotExist) {
			return nil, errors.Join(fs.ErrNotExist, err)
		}
		return io.NopCloser(strings.NewReader(content)), nil
	})
}

// TestValid: whatever happens in whatever configuration, what is published has
// no findings.
func TestValid(t *testing.T) {
	t.Parallel()
	small := &source.ResourceDump{Every: time.Hour, PackageEntries: 3}
	tests := []struct {
		name string
		opts source.Options
		set  source.Set
	}{
		{"plain", source.Options{}, source.Set{}},
		{"parts", source.Options{MaxEntries: 3, SmallSet: 1}, source.Set{}},
		{"rotated", source.Options{Keep: 6 * time.Hour, Grace: time.Hour}, source.Set{ChangeList: source.ChangeList{Rotate: time.Hour, Entries: 4}}},
		{"dumps", source.Options{}, bothDumps},
		{"dumps in parts", source.Options{MaxEntries: 2, Keep: 8 * time.Hour, Grace: time.Hour}, source.Set{
			ResourceDump: small, ChangeDump: &source.ChangeDump{Every: 30 * time.Minute, PackageEntries: 5},
			ChangeList: source.ChangeList{Rotate: 2 * time.Hour}}},
		{"archives", source.Options{Grace: time.Hour}, source.Set{
			ResourceDump: small, ChangeDump: &source.ChangeDump{Every: 30 * time.Minute, PackageEntries: 5},
			ChangeList: source.ChangeList{Keep: 4 * time.Hour},
			Archive:    &source.Archive{ResourceLists: keepAll, ResourceDumps: &source.Retain{Count: 3}, ChangeLists: keepAll, ChangeDumps: keepAll}}},
		{"archives in parts", source.Options{MaxEntries: 3, SmallSet: 1, Grace: time.Hour}, source.Set{
			ResourceDump: small, ChangeDump: &source.ChangeDump{Every: 30 * time.Minute, PackageEntries: 5},
			ChangeList: source.ChangeList{Rotate: 2 * time.Hour, Keep: 5 * time.Hour},
			Archive:    &source.Archive{ResourceLists: &source.Retain{Count: 5}, ResourceDumps: keepAll, ChangeLists: &source.Retain{Age: 7 * time.Hour}, ChangeDumps: keepAll}}},
		{"links", source.Options{Description: baseURL + "about"}, source.Set{Description: baseURL + "about#main", Links: []source.LinkRule{
			{Href: "https://m1.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate", Pri: 1}},
			{Href: "https://data.example.org/tm/{path}", Link: resourcesync.Link{Rel: "timemap", Type: "application/link-format"}},
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDumpWorld(t, tt.opts, tt.set)
			s := d.source()
			rnd := rand.New(rand.NewPCG(1, 2))
			d.publish(s) // a set of nothing
			for round := range 25 {
				for range rnd.IntN(6) {
					word := fmt.Sprintf("r%02d=%d", rnd.IntN(20), rnd.Int())
					if rnd.IntN(4) == 0 {
						word, _, _ = strings.Cut(word, "=")
					}
					d.put(word)
				}
				d.pass(time.Duration(rnd.Int64N(int64(time.Hour))))
				if d.publish(s); rnd.IntN(2) == 0 {
					d.dump(s)
				}
				report := validatetest.NoFindings(t, d.opener(), baseURL+".well-known/resourcesync")
				if t.Failed() || report.Documents < 4 || len(d.live) > 0 && report.Resources < len(d.live) {
					t.Fatalf("round %d: %d documents, %d of %d resources", round, report.Documents, report.Resources, len(d.live))
				}
			}
		})
	}
}
