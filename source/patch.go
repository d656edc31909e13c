package source

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"lockstep/source/internal/names"
)

// PutPatch publishes a patch, of type application/json-patch+json or
// application/vnd.lockstep.dcz, and returns its URI. It is durable then, and its
// bytes never change. It stays as long as the catalog keeps a change of the set
// that names it, and at least for the grace period, in which that change is to
// be applied. It may be called while Publish runs.
func (s *Source) PutPatch(ctx context.Context, set, mediaType string, patch []byte) (uri string, err error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name, ok := names.Set(set).Patch(mediaType, s.docs.Now(), hex.EncodeToString(random[:]))
	if !ok {
		return "", fmt.Errorf("publish patch: no name for the type %q", mediaType)
	}
	if err := s.docs.CommitBlob(ctx, name, patch, time.Time{}); err != nil {
		return "", fmt.Errorf("publish patch: %w", err)
	}
	return s.docs.Base.URI(name), nil
}
