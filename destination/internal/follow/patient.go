package follow

import (
	"context"
	"io"
	"net/http"
	"time"

	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// patience is how long a complete response of a hub, or a topic, may take.
const patience = 30 * time.Second

// A Patient is an HTTP client for hubs and topics that limits the time for a
// complete response.
type Patient struct{ Client *fetch.Client }

// Do sends a request.
func (p *Patient) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	resp, err := p.Client.Do(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &patientBody{resp.Body, cancel}
	return resp, nil
}

// A patientBody cancels the context of its request when it is closed.
type patientBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *patientBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// docSubscriptions is the document with the state of a [websub.Subscriber].
const docSubscriptions = "subscriptions"

// Subscriptions stores the state of a [websub.Subscriber] in a Journal.
type Subscriptions struct{ Journal journal.Journal }

// Load returns the state.
func (s Subscriptions) Load(ctx context.Context) ([]byte, error) {
	return s.Journal.Load(ctx, docSubscriptions)
}

// Save replaces the state.
func (s Subscriptions) Save(ctx context.Context, document []byte) error {
	return s.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{docSubscriptions: document}})
}
