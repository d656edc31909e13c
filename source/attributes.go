package source

import (
	"path"
	"regexp"
	"strings"

	"lockstep/atompmh"
)

// Cache-Control values. A document that changes is kept, but asked for: a stale
// copy fails verification.
const (
	cacheForever    = "public, max-age=31536000, immutable"
	cacheRevalidate = "no-cache"
	cacheNever      = "no-store"
)

// Attributes returns what a server is to state of the blob called name: its
// media type and its Cache-Control. It knows every name a Source writes; a
// compressed variant has the attributes of what is in it, but for the type.
func Attributes(name string) (contentType, cacheControl string) {
	cacheControl = cacheRevalidate
	plain := strings.TrimSuffix(name, gzipSuffix)
	switch {
	case strings.HasPrefix(name, privateDir):
		return "application/json", cacheNever
	case isPatch(name):
		for mediaType, ext := range patchTypes {
			if path.Ext(name) == ext {
				contentType = mediaType
			}
		}
		return contentType, cacheForever
	case immutable(plain):
		cacheControl = cacheForever
	}
	if plain != name {
		return "application/gzip", cacheControl
	}
	if isTopic(name) {
		return notificationType, cacheControl
	}
	if path.Base(name) == atomFile {
		return atompmh.MediaType, cacheControl // AP-DOC-11
	}
	switch path.Ext(name) {
	case ".txt":
		contentType = "text/plain; charset=utf-8"
	case ".html":
		contentType = "text/html; charset=utf-8"
	case ".zip":
		contentType = "application/zip"
	case feedSuffix:
		contentType = atompmh.MediaType // AP-DOC-11
	default:
		contentType = "application/xml; charset=utf-8" // RS-DISC-13
	}
	return contentType, cacheControl
}

// typeOf returns the media type that a document is served with, for links to it.
func typeOf(name string) string {
	typ, _ := Attributes(name)
	return typ
}

// immutableName is what names within a set's directory begin with whose bytes
// never change: those of the parts of Resource Lists, of packages and documents of
// dumps, and of archives of feeds (AP-TS-07), which all carry an instant. Parts of
// the Change List grow until they are closed.
var immutableName = regexp.MustCompile(`^(resourcelist|resourcedump|changedump|feed)-[0-9]`)

// immutable reports whether the bytes under name never change (RS-IDX-06).
func immutable(name string) bool {
	rest, ok := strings.CutPrefix(name, documentsDir)
	if !ok {
		return false
	}
	set, file, inSet := strings.Cut(rest, "/")
	return inSet && immutableName.MatchString(file) || !inSet && descriptionPart.MatchString(set)
}
