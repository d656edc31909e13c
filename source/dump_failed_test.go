package source_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// statFails is a store that cannot say anything about its blobs while failing is set.
type statFails struct {
	*blob.Mem
	failing bool
}

func (s *statFails) Stat(ctx context.Context, name string) (blob.Info, error) {
	if s.failing {
		return blob.Info{}, errors.New("input/output error")
	}
	return s.Mem.Stat(ctx, name)
}

// TestDumpFailedEarly: a set of which it cannot be found out whether it is published is named in
// the report, as one whose dump cannot be built.
func TestDumpFailedEarly(t *testing.T) {
	t.Parallel()
	docs := &statFails{Mem: &blob.Mem{}}
	set := source.Set{Name: "main", ResourceDump: &source.ResourceDump{}, Bitstream: func(context.Context, *catalog.Record) (io.ReadCloser, error) {
		return nil, errors.New("not to be opened")
	}}
	src, err := source.New(catalog.NewMem(time.Now), docs, source.Options{BaseURL: "http://example.org/", Sets: []source.Set{set}})
	if err != nil {
		t.Fatal(err)
	}
	docs.failing = true
	r, err := src.PublishDumps(t.Context())
	if err == nil || len(r.Sets) != 1 || r.Sets[0].Set != "main" || r.Failed["main"] == nil {
		t.Errorf("report %+v, %v", r, err)
	}
}
