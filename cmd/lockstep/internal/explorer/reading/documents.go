package reading

import (
	"context"
	"errors"
	"io"
	"strconv"

	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// ResourceSync is the Origin of documents of ResourceSync, and of Sitemaps.
type ResourceSync struct{ Client *fetch.Client }

// Read implements Origin.
func (o ResourceSync) Read(ctx context.Context, address string, add func(*spool.Row) error) (Result, error) {
	d, err := discover.Open(ctx, o.Client, address, discover.Validators{})
	if err != nil {
		return Result{}, err
	}
	defer d.Close()
	var result Result
	var e resourcesync.Entry
	for {
		err := d.Read(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && d.Header.Index && isList(d.Header.Capability) {
			if len(result.Next) < maxParts {
				result.Next = append(result.Next, Address{e.Loc, e.From.Time(), e.Until.Time()})
			}
			continue
		}
		if err == nil {
			row := RowOf(&e)
			err = add(&row)
		}
		if err != nil {
			return Result{}, err
		}
	}
	describe(&result, &d.Header)
	if stats := d.Stats(); stats.Skipped > 0 {
		result.Warnings = append(result.Warnings, strconv.Itoa(stats.Skipped)+" entries cannot be used because of errors in them")
	}
	for _, w := range d.Warnings() {
		result.Warnings = append(result.Warnings, fetch.Printable(w.String()))
	}
	return result, nil
}

// isList reports whether an index of a capability is read as one list: the entries of
// an index of descriptions are places to look at.
func isList(c resourcesync.Capability) bool {
	switch c {
	case "", resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump:
		return true
	}
	return false
}

// describe adds what the root of a document states.
func describe(result *Result, h *resourcesync.Header) {
	result.Title = Title(h.Capability, h.Index)
	result.Index = h.Index && isList(h.Capability)
	result.Of = of(h.Capability)
	for _, f := range []struct {
		name string
		at   resourcesync.Datetime
	}{{"at", h.At}, {"completed", h.Completed}, {"from", h.From}, {"until", h.Until}} {
		if !f.at.IsZero() {
			result.Facts = append(result.Facts, spool.Fact{Name: f.name, Value: f.at.String()})
		}
	}
	if h.Dialect != "" {
		result.Facts = append(result.Facts, spool.Fact{Name: "version", Value: h.Dialect})
	}
	result.Links = linksOf(h.Links)
}

// of returns what the entries of a document are.
func of(c resourcesync.Capability) Of {
	switch c {
	case resourcesync.ResourceDump, resourcesync.ChangeDump:
		return Packages
	case resourcesync.ChangeList, resourcesync.ChangeNotification:
		return Changes
	case "", resourcesync.ResourceList:
		return Resources
	case resourcesync.ResourceDumpManifest, resourcesync.ChangeDumpManifest:
		return Members
	}
	return Documents
}

// Title returns the name of a kind of documents for people.
func Title(c resourcesync.Capability, index bool) string {
	name, ok := map[resourcesync.Capability]string{
		"":                                "Sitemap",
		resourcesync.Description:          "Source Description",
		resourcesync.CapabilityList:       "Capability List",
		resourcesync.ResourceList:         "Resource List",
		resourcesync.ResourceDump:         "Resource Dump",
		resourcesync.ResourceDumpManifest: "Manifest of a Resource Dump",
		resourcesync.ChangeList:           "Change List",
		resourcesync.ChangeDump:           "Change Dump",
		resourcesync.ChangeDumpManifest:   "Manifest of a Change Dump",
		resourcesync.ResourceListArchive:  "Resource List Archive",
		resourcesync.ResourceDumpArchive:  "Resource Dump Archive",
		resourcesync.ChangeListArchive:    "Change List Archive",
		resourcesync.ChangeDumpArchive:    "Change Dump Archive",
		resourcesync.ChangeNotification:   "Change Notification",
	}[c]
	switch {
	case !ok:
		return string(c)
	case index:
		return name + " Index"
	}
	return name
}

// RowOf returns the row of an entry.
func RowOf(e *resourcesync.Entry) spool.Row {
	row := spool.Row{URI: e.Loc, Type: e.Type, Length: -1}
	if at := e.EventTime(); !at.IsZero() {
		row.Time = at.Time()
	}
	if e.Change != 0 {
		row.Kind = e.Change.String()
	}
	if e.Capability != "" {
		row.Kind = string(e.Capability)
	}
	if e.HasLength {
		row.Length = e.Length
	}
	for _, at := range []resourcesync.Datetime{e.At, e.From} {
		if row.Time.IsZero() && !at.IsZero() {
			row.Time = at.Time()
		}
	}
	d := &row.Detail
	fact := func(name, value string) {
		if value != "" {
			d.Facts = append(d.Facts, spool.Fact{Name: name, Value: value})
		}
	}
	fact("lastmod", e.Lastmod.String())
	fact("datetime", e.Datetime.String())
	fact("at", e.At.String())
	fact("completed", e.Completed.String())
	fact("from", e.From.String())
	fact("until", e.Until.String())
	fact("changefreq", e.ChangeFreq)
	fact("encoding", e.Encoding)
	fact("further metadata", e.Foreign.String())
	d.Hash, d.Path = e.Hashes.String(), e.Path
	d.Links = linksOf(e.Links)
	return row
}

func linksOf(links []resourcesync.Link) []spool.Link {
	var out []spool.Link
	for i := range links {
		l := &links[i]
		out = append(out, spool.Link{Rel: l.Rel, Href: l.Href, Type: l.Type, Length: l.Length, Hash: l.Hashes.String(), Path: l.Path, Modified: l.Modified.String(), Pri: l.Pri})
	}
	return out
}
