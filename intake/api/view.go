package api

import (
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// A resourceAnswer is the catalog's record of a resource. Resource has the format
// that PUT accepts.
type resourceAnswer struct {
	Resource entryView   `json:"resource"`
	Seq      catalog.Seq `json:"seq"`      // of the resource's last change
	Datetime string      `json:"datetime"` // of the resource's last change
}

// An entryView is an entry in the format that entry.Decode reads.
type entryView struct {
	URI      string     `json:"uri"`
	Lastmod  string     `json:"lastmod,omitempty"`
	Length   *int64     `json:"length,omitempty"`
	Hash     string     `json:"hash,omitempty"`
	Type     string     `json:"type,omitempty"`
	Encoding string     `json:"encoding,omitempty"`
	Links    []linkView `json:"links,omitempty"`
	Foreign  string     `json:"foreign,omitempty"`
}

// A linkView is a link of an entry.
type linkView struct {
	Rel      string `json:"rel"`
	Href     string `json:"href"`
	Type     string `json:"type,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Modified string `json:"modified,omitempty"`
	Length   *int64 `json:"length,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Pri      int    `json:"pri,omitempty"`
	Foreign  string `json:"foreign,omitempty"`
}

// view returns r as a resourceAnswer. A patch is left out: it belongs to the change
// that recorded it.
func view(r *catalog.Record) resourceAnswer {
	v := entryView{URI: r.URI, Lastmod: datetime(r.Lastmod), Hash: r.Hashes.String(), Type: r.Type, Encoding: r.Encoding, Foreign: r.Foreign.String()}
	if r.Length >= 0 {
		v.Length = &r.Length
	}
	for i := range r.Links {
		l := &r.Links[i]
		if l.Rel == resourcesync.RelPatch {
			continue
		}
		lv := linkView{Rel: l.Rel, Href: l.Href, Type: l.Type, Encoding: l.Encoding, Modified: l.Modified.String(), Hash: l.Hashes.String(), Pri: l.Pri,
			Foreign: l.Foreign.String()}
		if l.HasLength {
			lv.Length = &l.Length
		}
		v.Links = append(v.Links, lv)
	}
	return resourceAnswer{v, r.Seq, datetime(r.EventTime)}
}
