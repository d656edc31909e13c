package serve

import (
	"path"
	"strings"

	"lockstep/atompmh"
	"lockstep/source/internal/names"
	"lockstep/source/internal/notify"
)

// Cache-Control values. A document that changes is kept, but asked for: a stale
// copy fails verification.
const (
	CacheForever    = "public, max-age=31536000, immutable"
	CacheRevalidate = "no-cache"
	cacheNever      = "no-store"
)

// Attributes returns what a server is to state of the blob called name: its
// media type and its Cache-Control. It knows every name a Source writes; a
// compressed variant has the attributes of what is in it, but for the type.
func Attributes(name string) (contentType, cacheControl string) {
	cacheControl = CacheRevalidate
	plain := strings.TrimSuffix(name, names.GzipSuffix)
	switch {
	case strings.HasPrefix(name, names.PrivateDir):
		return "application/json", cacheNever
	case names.IsPatch(name):
		for mediaType, ext := range names.PatchTypes {
			if path.Ext(name) == ext {
				contentType = mediaType
			}
		}
		return contentType, CacheForever
	case names.Immutable(plain):
		cacheControl = CacheForever
	}
	if plain != name {
		return "application/gzip", cacheControl
	}
	if names.IsTopic(name) {
		return notify.MediaType, cacheControl
	}
	if path.Base(name) == names.FeedFile {
		return atompmh.MediaType, cacheControl // AP-DOC-11
	}
	switch path.Ext(name) {
	case ".txt":
		contentType = "text/plain; charset=utf-8"
	case ".html":
		contentType = "text/html; charset=utf-8"
	case ".zip":
		contentType = "application/zip"
	case names.FeedSuffix:
		contentType = atompmh.MediaType // AP-DOC-11
	default:
		contentType = "application/xml; charset=utf-8" // RS-DISC-13
	}
	return contentType, cacheControl
}

// TypeOf returns the media type that a document is served with, for links to it.
func TypeOf(name string) string {
	typ, _ := Attributes(name)
	return typ
}
