// Package request parses what clients send to a hub: forms that subscribe,
// unsubscribe or ping, and publications.
package request

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/hub/internal/address"
	"lockstep/hub/internal/refusal"
	"lockstep/websub"
)

const (
	formType = "application/x-www-form-urlencoded"

	// MaxForm caps a form, which is held and parsed in memory. A ping may name many
	// topics.
	MaxForm = 256 << 10
	// maxSecret is the first length that is refused (WS-S-04, RN-AMB-08).
	maxSecret = 200
	// maxToken caps hub.verify_token: it is stored, and sent back.
	maxToken = 256
	// maxPings caps the topics that one form names.
	maxPings = 1000
)

// Terms are what subscribers can get.
type Terms struct {
	AllowPrivate                     bool // callbacks may be at private and loopback addresses
	LeaseMin, LeaseDefault, LeaseMax time.Duration
}

// A Subscription is a form that subscribes or unsubscribes.
type Subscription struct {
	Mode            string
	Topic, Callback string   // as sent: the hub sends them back, and calls them, unchanged (WS-H-09)
	Target          *url.URL // of the callback
	Secret          []byte   // nil: none (WS-H-08)
	Lease           time.Duration
	Token           string
}

// ParseForm reads the parameters of a body.
func ParseForm(body []byte) (url.Values, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refusal.New(400, "the form is malformed: %s", plainForm(err))
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

// One returns the value of a parameter that may occur at most once. If it
// occurred twice with two values, different readers would understand it
// differently.
func One(form url.Values, name string) (string, error) {
	values := form[name]
	if len(values) == 0 {
		return "", nil
	}
	if slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
		return "", refusal.New(400, "%s is given more than once", name)
	}
	return values[0], nil
}

// ParseSubscription reads a form of mode subscribe or unsubscribe. Parameters it
// does not know are ignored (WS-H-02), hub.verify among them (WS-OLD-01).
func ParseSubscription(mode string, form url.Values, o Terms) (*Subscription, error) {
	s := &Subscription{Mode: mode}
	var secret, lease string
	for name, to := range map[string]*string{
		"hub.topic": &s.Topic, "hub.callback": &s.Callback, "hub.secret": &secret,
		"hub.lease_seconds": &lease, "hub.verify_token": &s.Token,
	} {
		v, err := One(form, name)
		if err != nil {
			return nil, err
		}
		*to = v
	}
	var err error
	if _, err = address.CheckTopic(s.Topic); err != nil {
		return nil, RefuseURL("hub.topic", err)
	}
	if s.Target, err = address.Check(s.Callback, o.AllowPrivate); err != nil {
		return nil, RefuseURL("hub.callback", err)
	}
	if len(secret) >= maxSecret {
		return nil, refusal.New(400, "hub.secret has %d bytes: less than %d are allowed", len(secret), maxSecret)
	}
	if len(s.Token) > maxToken {
		return nil, refusal.New(400, "hub.verify_token is longer than %d bytes", maxToken)
	}
	if secret != "" && mode == websub.ModeSubscribe {
		s.Secret = []byte(secret)
	}
	s.Lease = grantedLease(lease, o)
	return s, nil
}

// RefuseURL returns the answer to a parameter that Check refused.
func RefuseURL(name string, err error) error {
	var address *address.Refused
	if errors.As(err, &address) {
		return refusal.New(403, "%s %s", name, err)
	}
	return refusal.New(400, "%s %s", name, err)
}

// grantedLease returns the lease granted for a requested one (WS-H-12): whole
// seconds, within the bounds, and the default if the request is no positive
// integer (WS-H-04). It is never unlimited (WS-L-01, RN-AMB-11).
func grantedLease(wish string, o Terms) time.Duration {
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

// ParsePing returns the topics that a form of mode publish names, each once, as
// websub.Canonical spells it (WS-P-02, RN-PB-03).
func ParsePing(form url.Values, allowPrivate bool) ([]*url.URL, []string, error) {
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
			return nil, nil, refusal.New(400, "more than %d topics in one request", maxPings)
		}
		u, err := address.Check(t, allowPrivate)
		if err != nil {
			return nil, nil, RefuseURL("hub.topic", err)
		}
		urls, topics = append(urls, u), append(topics, name)
	}
	if len(topics) == 0 {
		return nil, nil, refusal.New(400, "hub.url or hub.topic is missing: name the topic that has new content")
	}
	return urls, topics, nil
}
