package hub

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/websub"
)

const (
	formType = "application/x-www-form-urlencoded"

	// maxForm caps a form, which is held and parsed in memory. A ping may name many
	// topics.
	maxForm = 256 << 10
	// maxSecret is the first length that is refused (WS-S-04, RN-AMB-08).
	maxSecret = 200
	// maxToken caps hub.verify_token: it is stored, and sent back.
	maxToken = 256
	// maxPings caps the topics that one form names.
	maxPings = 1000
)

// A subscribing is a form that subscribes or unsubscribes.
type subscribing struct {
	mode            string
	topic, callback string   // as sent: the hub sends them back, and calls them, unchanged (WS-H-09)
	target          *url.URL // of the callback
	secret          []byte   // nil: none (WS-H-08)
	lease           time.Duration
	token           string
}

// A refusal reports a request that is not executed, with the HTTP status of the
// answer.
type refusal struct {
	status int
	text   string
	after  time.Duration // Retry-After, if above zero
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// parseForm reads the parameters of a body.
func parseForm(body []byte) (url.Values, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse(400, "the form is malformed: %s", plainForm(err))
	}
	return form, nil
}

func plainForm(err error) string {
	var escape url.EscapeError
	if errors.As(err, &escape) {
		return "invalid percent-encoding"
	}
	return err.Error()
}

// one returns the value of a parameter that may occur at most once. If it
// occurred twice with two values, different readers would understand it
// differently.
func one(form url.Values, name string) (string, error) {
	values := form[name]
	if len(values) == 0 {
		return "", nil
	}
	if slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
		return "", refuse(400, "%s is given more than once", name)
	}
	return values[0], nil
}

// parseSubscribing reads a form of mode subscribe or unsubscribe. Parameters it
// does not know are ignored (WS-H-02), hub.verify among them (WS-OLD-01).
func parseSubscribing(mode string, form url.Values, o *Options) (*subscribing, error) {
	s := &subscribing{mode: mode}
	var secret, lease string
	for name, to := range map[string]*string{
		"hub.topic": &s.topic, "hub.callback": &s.callback, "hub.secret": &secret,
		"hub.lease_seconds": &lease, "hub.verify_token": &s.token,
	} {
		v, err := one(form, name)
		if err != nil {
			return nil, err
		}
		*to = v
	}
	var err error
	if _, err = checkTopicURL(s.topic); err != nil {
		return nil, refuseURL("hub.topic", err)
	}
	if s.target, err = checkURL(s.callback, o.AllowPrivate); err != nil {
		return nil, refuseURL("hub.callback", err)
	}
	if len(secret) >= maxSecret {
		return nil, refuse(400, "hub.secret has %d bytes: less than %d are allowed", len(secret), maxSecret)
	}
	if len(s.token) > maxToken {
		return nil, refuse(400, "hub.verify_token is longer than %d bytes", maxToken)
	}
	if secret != "" && mode == websub.ModeSubscribe {
		s.secret = []byte(secret)
	}
	s.lease = grantedLease(lease, o)
	return s, nil
}

// refuseURL returns the answer to a parameter that checkURL refused.
func refuseURL(name string, err error) error {
	var address *addressRefused
	if errors.As(err, &address) {
		return refuse(403, "%s %s", name, err)
	}
	return refuse(400, "%s %s", name, err)
}

// grantedLease returns the lease granted for a requested one (WS-H-12): whole
// seconds, within the bounds, and the default if the request is no positive
// integer (WS-H-04). It is never unlimited (WS-L-01, RN-AMB-11).
func grantedLease(wish string, o *Options) time.Duration {
	lease := o.LeaseDefault
	if wish != "" && strings.Trim(wish, "0123456789") == "" {
		switch n, err := strconv.ParseInt(wish, 10, 64); {
		case err != nil || n > int64(o.LeaseMax/time.Second):
			lease = o.LeaseMax // any number of digits
		case n > 0:
			lease = time.Duration(n) * time.Second
		}
	}
	lease = min(max(lease, o.LeaseMin), o.LeaseMax)
	return max(lease.Truncate(time.Second), time.Second)
}

// parsePing returns the topics that a form of mode publish names, each once, as
// websub.Canonical spells it (WS-P-02, RN-PB-03).
func parsePing(form url.Values, o *Options) ([]*url.URL, []string, error) {
	given := append(slices.Clone(form["hub.url"]), form["hub.topic"]...)
	var (
		urls   []*url.URL
		topics []string
		seen   = map[string]bool{}
	)
	for _, t := range given {
		name := websub.Canonical(t)
		if t == "" || seen[name] {
			continue
		}
		seen[name] = true
		if len(topics) == maxPings {
			return nil, nil, refuse(400, "more than %d topics in one request", maxPings)
		}
		u, err := checkURL(t, o.AllowPrivate)
		if err != nil {
			return nil, nil, refuseURL("hub.topic", err)
		}
		urls, topics = append(urls, u), append(topics, name)
	}
	if len(topics) == 0 {
		return nil, nil, refuse(400, "hub.url or hub.topic is missing: which topic has news?")
	}
	return urls, topics, nil
}
