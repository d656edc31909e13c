package oaipmh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"lockstep/catalog"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// Bitstream opens the metadata of the record that r describes: from the Contents, or
// else from the repository's response to GetRecord. The error matches
// [fs.ErrNotExist] if the repository no longer has the record. The caller verifies
// that it is the version that r describes.
func (h *Harvester) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	if hash := versionOf(r.Hashes); h.o.Contents != nil && hash != "" {
		b, err := h.o.Contents.Get(ctx, h.in.Set, r.URI, hash)
		if err == nil {
			return io.NopCloser(bytes.NewReader(b)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	at := r.URI
	if i := slices.IndexFunc(r.Links, func(l resourcesync.Link) bool { return l.Rel == "via" }); i >= 0 {
		at = r.Links[i].Href
	}
	base, prefix, id, ok := oaipmh.ParseRecordURL(at)
	if !ok || base != h.base || prefix != h.o.Prefix {
		return nil, fmt.Errorf("get %s: %w", fetch.Printable(r.URI), fs.ErrNotExist)
	}
	b, err := h.record(ctx, oaipmh.RecordURL(h.base, prefix, id))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", fetch.Printable(at), err)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// record requests a record and returns its metadata.
func (h *Harvester) record(ctx context.Context, uri string) ([]byte, error) {
	rec, err := h.getRecord(ctx, uri)
	switch {
	case oaipmh.HasCode(err, oaipmh.CodeIDDoesNotExist), oaipmh.HasCode(err, oaipmh.CodeCannotDisseminateFormat):
		return nil, &fault.Missing{Err: err}
	case err != nil:
		return nil, err
	case rec.Deleted:
		return nil, fmt.Errorf("the record is deleted: %w", fs.ErrNotExist)
	case rec.Metadata == nil:
		return nil, fmt.Errorf("the record has no metadata in this format: %w", fs.ErrNotExist)
	}
	return rec.Metadata, nil
}

// getRecord requests a record.
func (h *Harvester) getRecord(ctx context.Context, uri string) (rec oaipmh.Record, err error) {
	_, err = h.ask(ctx, uri, func(r *oaipmh.Reader) error { return r.Read(&rec) })
	if errors.Is(err, io.EOF) {
		return rec, fmt.Errorf("the response holds no record: %w", fs.ErrNotExist)
	}
	if err != nil {
		return rec, fault.Plain(uri, err)
	}
	return rec, nil
}
