package hub_test

import (
	"errors"
	"net/http"
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// TestPublish publishes messages from within the process. A refusal is
// permanent; a hub that is not running may accept the message later.
func TestPublish(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "a")
	link := func(topic string) http.Header {
		return http.Header{"Link": {"<" + topic + `>; rel="self"`}, "Content-Type": {"text/plain"}}
	}
	for name, tt := range map[string]struct {
		topic  string
		header http.Header
		body   string
		want   bool
	}{
		"a message":         {deskTopic, link(deskTopic), "x", true},
		"spelt another way": {deskTopic, link("https://data.example.org/%6Eews"), "x", true},
		"no link":           {deskTopic, http.Header{"Content-Type": {"text/plain"}}, "x", true},
		"no topic":          {"news", nil, "x", false},
		"another link":      {deskTopic, http.Header{"Link": {`<https://data.example.org/>; rel="up"`}, "Content-Type": {"text/plain"}}, "x", true},
		"no Content-Type":   {deskTopic, nil, "x", false},
		"another topic":     {deskTopic, link("https://data.example.org/other"), "x", false},
		"no body":           {deskTopic, link(deskTopic), "", false},
		"too large":         {deskTopic, link(deskTopic), string(make([]byte, hub.DefaultMaxBody+1)), false},
	} {
		err := d.hub.Publish(t.Context(), tt.topic, tt.header, []byte(tt.body))
		if permanent, ok := errors.AsType[interface {
			error
			Permanent() bool
		}](err); tt.want != (err == nil) || err != nil && !(ok && permanent.Permanent()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h, err := hub.New(hubstore.NewMem(), hub.Options{PublicURL: "https://hub.example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Publish(t.Context(), deskTopic, link(deskTopic), []byte("x")); !errors.Is(err, hub.ErrNotReady) {
		t.Errorf("a hub that does not run: %v", err)
	}
}
