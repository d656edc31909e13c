package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"lockstep/catalog"
	"lockstep/oaipmh"
)

// A collection that links of resources name (RS-REL-60) is a set within the set of the
// resources: its setSpec is Name:SPEC, its setName the URI. A deleted item keeps its
// sets; an item that has left a collection is reported as deleted in lists of that set.
// Collections without items remain: harvesters may know them.

const (
	itemCollections = 8 // of an item, and as many former ones: each is in further lists
	setsPerPart     = 1000

	collectionEnd = "\x02"
)

// family returns the name of the lists of the items that are in a collection, and
// available in a format.
func family(collection, prefix string) string {
	if prefix == dublinCore {
		prefix = ""
	}
	if collection == "" {
		return prefix
	}
	return collection + collectionEnd + prefix
}

// specs returns the setSpecs of an item of a set.
func specs(set string, collections []string) []string {
	all := []string{set}
	for _, c := range collections {
		all = append(all, set+":"+c)
	}
	return all
}

// collectionSpec returns the last part of the setSpec of a collection: the end of its
// URI, for people, and a digest of it.
func collectionSpec(uri string) string {
	const most = 32
	name := strings.TrimRight(uri, "/#?=")
	name = name[strings.LastIndexAny(name, "/#?=:")+1:]
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-.!~*'()", c) {
			return c
		}
		return '_'
	}, name[:min(len(name), most)])
	sum := sha256.Sum256([]byte(uri))
	return name + "-" + hex.EncodeToString(sum[:6])
}

// collections returns the specs of a resource's collections, and adds those that are new
// to the index.
func (b *batch) collections(ctx context.Context, r *catalog.Record) (in []string, err error) {
	for i := range r.Links {
		l := &r.Links[i]
		if l.Rel != "collection" || !sayable(l.Href) {
			continue
		}
		spec := collectionSpec(l.Href)
		if slices.Contains(in, spec) {
			continue
		}
		if len(in) == itemCollections {
			break
		}
		in = append(in, spec)
		if b.known[spec] {
			continue
		}
		if _, ok, err := b.x.get(ctx, keyCollection+spec); err != nil {
			return nil, err
		} else if !ok {
			b.updates.set(keyCollection+spec, l.Href)
		}
		b.known[spec] = true
	}
	return in, nil
}

// listSets answers ListSets: each set, and then its collections.
func (a *answer) listSets(ctx context.Context) error {
	l := &listing{Verb: oaipmh.VerbListSets}
	if a.q.Token != "" {
		var err error
		if l, err = a.resume(ctx, a.q.Token); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(a.sets, func(x *index) bool { return x.Collections }) {
		if _, err := a.inStep(ctx, a.sets); err != nil {
			return err
		}
	}
	found, more, err := a.setsAfter(ctx, l.Set)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return badToken("the set it was at is gone")
	}
	first := l.Cursor
	a.resp.begin(a.head())
	for i := range found {
		if err := a.resp.out.Set(&found[i]); err != nil {
			return err
		}
	}
	if l.Cursor += int64(len(found)); more || first > 0 {
		l.Set = found[len(found)-1].Spec
		if err := a.putToken(ctx, l, nil, first, more); err != nil {
			return err
		}
	}
	return a.resp.end()
}

// setsAfter returns the next sets, up to setsPerPart, that come after the given one.
func (a *answer) setsAfter(ctx context.Context, past string) (found []oaipmh.Set, more bool, err error) {
	name, collection, _ := strings.Cut(past, ":")
	reached := past == ""
	for _, x := range a.sets {
		from := keyCollection
		switch {
		case reached:
			if len(found) == setsPerPart {
				return found, true, nil
			}
			found = append(found, oaipmh.Set{Spec: x.Name, Name: x.Title, Description: x.Summary})
		case x.Name != name:
			continue
		case collection != "":
			from += collection + "\x01"
		}
		reached = true
		if !x.Collections {
			continue
		}
		for r, err := range x.catalog.Resources(ctx, x.name, catalog.Range{From: from, To: keyFormat}) {
			if err != nil {
				return nil, false, err
			}
			if len(found) == setsPerPart {
				return found, true, nil
			}
			found = append(found, oaipmh.Set{Spec: x.Name + ":" + strings.TrimPrefix(r.URI, keyCollection), Name: r.Token})
		}
	}
	return found, false, nil
}
