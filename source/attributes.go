package source

import (
	"mime"
	"path"

	"lockstep/source/internal/serve"
)

// Attributes returns what a server is to state of the blob called name: its
// media type and its Cache-Control. It knows every name a Source writes; a
// compressed variant has the attributes of what is in it, but for the type.
func Attributes(name string) (contentType, cacheControl string) { return serve.Attributes(name) }

func typeByExtension(rel string, _ []byte) string { return mime.TypeByExtension(path.Ext(rel)) }
