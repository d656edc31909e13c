package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/url"
	"regexp"
	"strings"

	"lockstep/catalog"
	"lockstep/oaipmh"
)

const dublinCore = oaipmh.DublinCore

// wellKnown are formats with a conventional prefix, by namespace.
var wellKnown = map[string]format{
	"http://www.loc.gov/MARC21/slim":              {"marc21", "http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd"},
	"http://www.loc.gov/mods/v3":                  {"mods", "http://www.loc.gov/standards/mods/mods.xsd"},
	"http://www.loc.gov/METS/":                    {"mets", "http://www.loc.gov/standards/mets/mets.xsd"},
	"http://datacite.org/schema/kernel-4":         {"datacite", "http://schema.datacite.org/meta/kernel-4/metadata.xsd"},
	"http://datacite.org/schema/kernel-3":         {"datacite3", "http://schema.datacite.org/meta/kernel-3/metadata.xsd"},
	"http://schema.datacite.org/oai/oai-1.1/":     {"oai_datacite", "http://schema.datacite.org/oai/oai-1.1/oai.xsd"},
	"http://namespaces.openaire.eu/schema/oaire/": {"oai_openaire", "https://www.openaire.eu/schema/repo-lit/4.0/openaire.xsd"},
	"http://www.w3.org/1999/02/22-rdf-syntax-ns#": {"rdf", "http://www.openarchives.org/OAI/2.0/rdf.xsd"},
	"http://www.tei-c.org/ns/1.0":                 {"tei", "https://www.tei-c.org/release/xml/tei/custom/schema/xsd/tei_all.xsd"},
	"http://www.lido-schema.org":                  {"lido", "http://www.lido-schema.org/schema/v1.0/lido-v1.0.xsd"},
	"urn:isbn:1-931666-22-9":                      {"ead", "http://www.loc.gov/ead/ead.xsd"},
	"http://www.w3.org/2005/Atom":                 {"atom", "http://www.kbcafe.com/rss/atom.xsd.xml"},
}

// notPrefix matches characters that are invalid in a metadataPrefix (OAI-PMH
// 2.0, 3.4).
var notPrefix = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// formatOf returns the format of a namespace with a stable prefix: the
// conventional one, or the namespace's last words and a part of its hash.
func formatOf(namespace, schema string) format {
	f, ok := wellKnown[namespace]
	if !ok {
		f.Schema = namespace
		words := strings.FieldsFunc(namespace, func(r rune) bool { return r == '/' || r == ':' || r == '#' })
		for i := len(words) - 1; i >= 0 && f.Prefix == ""; i-- {
			f.Prefix = strings.Trim(notPrefix.ReplaceAllString(words[i], "_"), "_.")
		}
		sum := sha256.Sum256([]byte(namespace))
		f.Prefix = f.Prefix[:min(len(f.Prefix), 40)] + "-" + hex.EncodeToString(sum[:4])
	}
	if schema != "" && isAddress(schema) {
		f.Schema = schema
	}
	return f
}

// prefixOf returns the prefix of the format of a namespace.
func (x *index) prefixOf(namespace string) string {
	if namespace == oaipmh.DublinCoreNamespace {
		return dublinCore
	}
	return formatOf(namespace, "").Prefix
}

// maxAddress caps the length of the namespace and schema that a document states:
// every list of formats repeats them.
const maxAddress = 1024

// isAddress reports whether responses can contain s as a URI.
func isAddress(s string) bool {
	_, err := url.Parse(s)
	return err == nil && len(s) <= maxAddress && sayable(s)
}

// errNoRecord reports content that was read to its end and cannot be a record.
var errNoRecord = errors.New("the content cannot be a record")

// format determines the format of a resource's content for now, its item; old is the
// previous state of the item, or nil. If the content cannot be read at present, unread
// says why, and the item keeps the format it had: it was not deleted.
func (b *batch) format(ctx context.Context, r *catalog.Record, old, now *row) (unread, err error) {
	prefix, err := b.x.prefix(ctx, r, b.updates)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errNoRecord):
		b.x.opts.Logger.DebugContext(ctx, "no record of its own format", slog.String("uri", r.URI), slog.Any("err", err))
	case err != nil:
		if old != nil && !old.Deleted {
			now.DublinCore, now.Formats = old.DublinCore, old.Formats
		}
		return err, nil
	case prefix == dublinCore:
		now.DublinCore = true
	case prefix != "":
		now.Formats = []string{prefix}
	}
	return nil, nil
}

// prefix returns the prefix of the format of a resource's content, or "". It adds a
// format that is new to u.
func (x *index) prefix(ctx context.Context, r *catalog.Record, u updates) (string, error) {
	if x.Open == nil || !isXML(r.Type) || r.Length > maxDocument {
		return "", nil
	}
	m, err := x.document(ctx, r)
	if err != nil {
		return "", err
	}
	if m.Namespace == oaipmh.DublinCoreNamespace {
		return dublinCore, nil
	}
	if m.Namespace == oaipmh.Namespace || !isAddress(m.Namespace) { // metadata must have another namespace (OAI-PMH 2.0, 3.2.1)
		return "", nil
	}
	if f, ok := x.fmts[m.Namespace]; ok {
		return f.Prefix, nil
	}
	if len(x.fmts) >= maxFormats {
		if !x.full {
			x.full = true
			x.opts.Logger.WarnContext(ctx, "there are more formats than are listed for harvesters", slog.String("set", x.Name), slog.String("uri", r.URI))
		}
		return "", nil
	}
	f := formatOf(m.Namespace, m.Schema)
	x.fmts[m.Namespace] = f
	u.setJSON(keyFormat+m.Namespace, f)
	return f.Prefix, nil
}

// document reads the content of a resource as the metadata of a record. It adds
// the location of the schema if the document does not state it and the format is
// well known. The error matches errNoRecord if a later attempt would have the same
// result.
func (x *index) document(ctx context.Context, r *catalog.Record) (oaipmh.Metadata, error) {
	content, err := x.Open(ctx, r)
	if err != nil {
		return oaipmh.Metadata{}, err
	}
	defer content.Close() // opened for reading only
	in := &meter{in: io.LimitReader(content, maxDocument+1)}
	m, err := oaipmh.Document(in, maxDocument)
	if err != nil {
		_, _ = io.Copy(io.Discard, in)                                                 // the meter has the error
		if in.err != nil || r.Length >= 0 && in.read != min(r.Length, maxDocument+1) { // not what the catalog describes: a change follows
			return m, err
		}
		return m, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	if m.Namespace == oaipmh.DublinCoreNamespace {
		m.Locate(oaipmh.DublinCoreSchema)
	} else {
		m.Locate(wellKnown[m.Namespace].Schema)
	}
	return m, nil
}

// A meter counts the bytes read from in, and records why reading failed.
type meter struct {
	in   io.Reader
	read int64
	err  error
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	m.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}

// isXML reports whether a media type is that of XML (RFC 7303).
func isXML(mediaType string) bool {
	t, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (t == "application/xml" || t == "text/xml" || strings.HasSuffix(t, "+xml"))
}
