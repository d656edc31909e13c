package inbox

import (
	"context"
	"fmt"
	"maps"

	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// An Aside is a message that was not applied, and why.
type Aside struct {
	Message *Message
	Cause   string
}

// PutAside adds to docs messages that were not applied, in place of the oldest
// of those (RN-RX-09).
func PutAside(ctx context.Context, j journal.Journal, set string, as []Aside, docs map[string][]byte) error {
	if len(as) == 0 {
		return nil
	}
	var n int64
	if _, err := saved.Load(ctx, j, docAsides, &n); err != nil {
		return err
	}
	kept := map[string][]byte{}
	for _, a := range as {
		body := a.Message.Body[:min(len(a.Message.Body), maxAsideBytes)]
		l := Mail{Set: set, Topic: a.Message.Topic, ID: a.Message.id, At: a.Message.At, Cause: a.Cause, Body: body}
		kept[fmt.Sprint(docAside, n%maxAside)] = saved.Encode(&l)
		n++
	}
	kept[docAsides] = saved.Encode(n)
	maps.Copy(docs, kept)
	return nil
}
