// Package patch creates and applies patches, which turn one version of a
// representation into the next.
//
// A Source may offer a patch for a change beside the complete new version
// (RS-REL-30). The media type of the patch determines its format:
//
//	[TypeDelta]       a binary delta, for bytes of any kind
//	[TypeChunkDelta]  likewise, for large contents
//	[TypeJSON]        JSON Patch, RFC 6902
//	[TypeMerge]       JSON Merge Patch, RFC 7396
//	[TypeXML]         XML patch, RFC 5261 as in RFC 7351
//
// [Apply] applies all of them; [Deltas] and [MakeJSON] create those that a Source of
// this project offers, except for large contents: internal/chunkdelta does that,
// and also applies them, without holding a version in memory.
//
// A patch is untrusted: time and memory are limited whatever it contains, and Apply
// never panics. All formats but the deltas describe changes to a value or a tree,
// whereas the Source announces bytes with a hash. So Apply leaves everything
// that the patch does not change exactly as it was, and formats the rest like the old
// version. The caller compares the result with the hash of the new version
// (RS-REL-34).
package patch

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/internal/chunkdelta"
)

// The media types of patches (RS-REL-31, RS-REL-32).
const (
	// TypeDelta is Lockstep's own name for "dictionary-compressed Zstandard" (RFC
	// 9842): the previous bytes are the dictionary.
	TypeDelta = "application/vnd.lockstep.dcz"

	// TypeChunkDelta names the ranges of the previous bytes that the new version
	// contains, and has the rest. Package internal/chunkdelta describes the format.
	TypeChunkDelta = "application/vnd.lockstep.chunkdelta"

	TypeJSON  = "application/json-patch+json"
	TypeMerge = "application/merge-patch+json"
	TypeXML   = "application/xml-patch+xml"
)

var (
	// ErrInvalid reports bytes that are not a valid patch of their type, or a patch
	// that does not apply to the old version.
	ErrInvalid = errors.New("not a patch of these bytes")

	// ErrTooLarge reports a patch whose result, or whose work, exceeds the limit.
	ErrTooLarge = errors.New("patch exceeds the limit")

	// ErrType reports a media type that is not that of a supported patch.
	ErrType = errors.New("unknown type of patch")
)

// appliers are the functions that apply a patch, by its media type. The second
// names are misprints in the standard that are accepted too (RS-REL-32).
var appliers = map[string]func(old, patch []byte, limit int64) ([]byte, error){
	TypeDelta:                         ApplyDelta,
	TypeChunkDelta:                    ApplyChunkDelta,
	TypeJSON:                          ApplyJSON,
	"application/json-patch":          ApplyJSON,
	TypeMerge:                         ApplyMerge,
	TypeXML:                           ApplyXML,
	"application/patch-ops-error+xml": ApplyXML,
}

// Known reports whether [Apply] supports patches of a media type, with or
// without parameters.
func Known(mediaType string) bool { return appliers[plainType(mediaType)] != nil }

// MaxOld returns the maximum size of an old version for a patch of a known
// type: trees take many times the memory of their text.
func MaxOld(mediaType string) int64 {
	switch plainType(mediaType) {
	case TypeDelta:
		return maxDelta
	case TypeChunkDelta:
		return chunkdelta.MaxContent
	case TypeXML, "application/patch-ops-error+xml":
		return maxXML
	}
	return maxJSON
}

// MaxPatch returns the maximum size of a patch of a known type.
func MaxPatch(mediaType string) int64 {
	if plainType(mediaType) == TypeChunkDelta {
		return chunkdelta.MaxDelta
	}
	return MaxOld(mediaType)
}

// Apply applies a patch of a media type to old and returns at most limit bytes,
// else [ErrTooLarge]. It returns [ErrInvalid] for an invalid patch or one that
// does not apply to old, and [ErrType] for a type that is not [Known]. It does
// not modify old or patch.
func Apply(mediaType string, old, patch []byte, limit int64) ([]byte, error) {
	apply := appliers[plainType(mediaType)]
	if apply == nil {
		return nil, fmt.Errorf("apply %q: %w", clip(mediaType), ErrType)
	}
	return apply(old, patch, limit)
}

// plainType returns a media type without parameters, in lower case.
func plainType(mediaType string) string {
	t, _, _ := strings.Cut(mediaType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
