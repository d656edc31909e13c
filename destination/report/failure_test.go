package report

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestCausesHideSecrets: a failure, and the line of an event, name the resource by its URI;
// the cause does not show secret parameters of it.
func TestCausesHideSecrets(t *testing.T) {
	t.Parallel()
	const (
		uri  = "http://h/a?token=SECRET"
		text = "store http://h/a?token=SECRET in mirror: disk full"
		want = "store http://h/a?token=REDACTED in mirror: disk full"
	)
	for _, f := range []Failure{NewFailure(uri, text), NewResourceFailure(uri, text, false)} {
		if f.URI != uri || f.Cause != want {
			t.Errorf("failure %+v", f)
		}
	}
	line, err := json.Marshal(Event{Kind: EventFailed, URI: uri, Err: errors.New(text)})
	if err != nil || !strings.Contains(string(line), uri) || !strings.Contains(string(line), want) {
		t.Errorf("line %s, %v", line, err)
	}
}
