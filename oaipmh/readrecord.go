package oaipmh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"lockstep/internal/xmlscan"
)

// children calls child for each child of the current element; child reads it to
// its end.
func (r *Reader) children(child func() error) error {
	for {
		m, err := r.s.Next()
		if err != nil || m == xmlscan.End {
			return err
		}
		if err := child(); err != nil {
			return err
		}
	}
}

// record reads the current record element.
func (r *Reader) record(rec *Record) error {
	err := r.children(func() error {
		switch {
		case r.ours("header"):
			return r.header(rec)
		case r.ours("metadata"):
			return r.children(func() error { return r.metadata(rec) })
		}
		return r.s.Skip() // about (OAI-PMH 2.0, 2.5)
	})
	if rec.Deleted {
		rec.Metadata, rec.Namespace = nil, "" // OAI-PMH 2.0, 2.5.1: a deleted record has none
	}
	return err
}

// header reads the current header element.
func (r *Reader) header(rec *Record) error {
	if status, ok := r.s.Attr("status"); ok {
		rec.Deleted = strings.EqualFold(strings.TrimSpace(string(status)), "deleted")
	}
	return r.children(func() error {
		switch {
		case r.ours("identifier"):
			return r.text(func(s string) { rec.Identifier = s })
		case r.ours("datestamp"):
			return r.text(func(s string) { rec.Datestamp = parseLoose(s) })
		case r.ours("setSpec"):
			return r.text(func(s string) {
				if s != "" && len(rec.Sets) < maxSets {
					rec.Sets = append(rec.Sets, s)
				}
			})
		}
		return r.s.Skip()
	})
}

const declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// metadata reads the current element, the first of its record, as a document.
func (r *Reader) metadata(rec *Record) (err error) {
	if rec.Metadata != nil {
		return r.s.Skip()
	}
	r.buf = append(r.buf[:0], declaration...)
	if r.buf, err = r.s.CaptureDocument(r.buf, r.maxRecord); err != nil {
		return err
	}
	r.buf = append(r.buf, '\n')
	rec.Metadata = r.buf
	tag, _, _ := bytes.Cut(r.buf[len(declaration):], []byte(">"))
	if !bytes.Equal(tag, r.rootTag) {
		r.rootTag = append(r.rootTag[:0], tag...)
		r.rootName, err = rootNamespace(r.buf)
	}
	rec.Namespace = r.rootName
	return err
}

// rootNamespace returns the namespace of the root of a document made by
// metadata.
func rootNamespace(doc []byte) (string, error) {
	s := xmlscan.New(bytes.NewReader(doc), xmlscan.Options{MaxToken: len(doc) + 1, Pages: true}) // XHTML is a valid format
	if _, err := s.Next(); err != nil {
		return "", fmt.Errorf("read metadata: %w", err)
	}
	prefix := rootPrefix(doc[len(declaration):])
	for p, uri := range s.InScope() {
		if p == prefix {
			return uri, nil
		}
	}
	return "", nil
}

// Sets reads a response to ListSets.
func (r *Reader) Sets() (sets []Set, err error) {
	err = r.items(VerbListSets, "set", func() error {
		var s Set
		err := r.children(func() error {
			switch {
			case r.ours("setSpec"):
				return r.text(func(t string) { s.Spec = t })
			case r.ours("setName"):
				return r.text(func(t string) { s.Name = t })
			case r.ours("setDescription"):
				return r.children(func() error { return r.description(&s) })
			}
			return r.s.Skip()
		})
		sets = append(sets, s)
		return err
	})
	return sets, err
}

// description reads a description of a set, if it is in Dublin Core.
func (r *Reader) description(s *Set) error {
	if _, space := r.s.Name(); space != DublinCoreNamespace {
		return r.s.Skip()
	}
	return r.children(func() error {
		if _, space := r.s.Name(); space != dublinCoreElements || string(r.s.Local) != "description" || s.Description != "" {
			return r.s.Skip()
		}
		return r.text(func(t string) { s.Description = t })
	})
}

// Formats reads a response to ListMetadataFormats.
func (r *Reader) Formats() (formats []Format, err error) {
	err = r.items(VerbListMetadataFormats, "metadataFormat", func() error {
		var f Format
		err := r.children(func() error {
			switch {
			case r.ours("metadataPrefix"):
				return r.text(func(t string) { f.Prefix = t })
			case r.ours("schema"):
				return r.text(func(t string) { f.Schema = t })
			case r.ours("metadataNamespace"):
				return r.text(func(t string) { f.Namespace = t })
			}
			return r.s.Skip()
		})
		formats = append(formats, f)
		return err
	})
	return formats, err
}

// items reads the elements with the given name in the answer to a verb, by
// calling item.
func (r *Reader) items(verb Verb, name string, item func() error) error {
	for n := 0; ; {
		err := r.next()
		switch {
		case err != nil:
			return r.over(verb, err)
		case r.list != verb || !r.ours(name):
			err = r.s.Skip()
		case n == maxListed:
			err = r.s.Errorf("%w: more than %d of %s", ErrLimit, maxListed, name)
		default:
			n++
			err = item()
		}
		if err != nil {
			return r.fail(err)
		}
	}
}

// over turns the end of a response into nil, if it answers verb.
func (r *Reader) over(verb Verb, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if r.list != verb {
		return fmt.Errorf("%w to %s, but to %s", ErrNotOAI, verb, r.list)
	}
	return nil
}

// Identify reads a response to Identify.
func (r *Reader) Identify() (Identify, error) {
	id := Identify{DeletedRecord: DeletedNo, Granularity: Day} // the defaults
	for {
		if err := r.next(); err != nil {
			return id, r.over(VerbIdentify, err)
		}
		field, err := string(r.s.Local), error(nil)
		switch {
		case r.list != VerbIdentify || !r.ours(field) || field == "description":
			err = r.s.Skip()
		default:
			err = r.text(func(s string) { id.set(field, s) })
		}
		if err != nil {
			return id, r.fail(err)
		}
	}
}

// set sets the field of Identify for an element.
func (id *Identify) set(field, s string) {
	switch field {
	case "repositoryName":
		id.RepositoryName = s
	case "baseURL":
		id.BaseURL = s
	case "protocolVersion":
		id.ProtocolVersion = s
	case "adminEmail":
		if len(id.AdminEmails) < maxEmails {
			id.AdminEmails = append(id.AdminEmails, s)
		}
	case "earliestDatestamp":
		id.EarliestDatestamp = parseLoose(s)
	case "deletedRecord":
		switch d := DeletedRecord(strings.ToLower(s)); d {
		case DeletedTransient, DeletedPersistent:
			id.DeletedRecord = d
		}
	case "granularity":
		id.Granularity, _ = parseGranularity(s) // an invalid value means Day
	case "compression":
		if len(id.Compressions) < maxEmails {
			id.Compressions = append(id.Compressions, s)
		}
	}
}

// looseForms are nonstandard forms in which repositories write datestamps.
var looseForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z", "2006-01-02 15:04:05", "2006-01-02T15:04:05-0700",
	"2006-01", "2006",
}

// parseLoose parses a datestamp in any known form; zero if it is invalid. One
// without a zone is UTC.
func parseLoose(s string) time.Time {
	s = strings.TrimSpace(s)
	if t, _, err := ParseDatestamp(s); err == nil {
		return t
	}
	for _, form := range looseForms {
		if t, err := time.Parse(form, s); err == nil && t.Year() > 0 && t.Year() < 10000 {
			return t.UTC()
		}
	}
	return time.Time{}
}
