package main

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"lockstep/source"
)

// What --hub can be beside a URL.
const (
	hubEmbedded = "embedded" // the one that serve is itself
	hubOff      = "off"
)

// defaultNotifyDelay is how long changes gather: too short for anybody to
// notice, and what one program does at once is told at once.
const defaultNotifyDelay = 50 * time.Millisecond

// hubFlags say who is told of changes, and when.
type hubFlags struct {
	hub          []string
	hubTokenFile string
	notifyDelay  time.Duration
	embedded     bool // there can be one here
}

// declare declares the flags; serve can be a hub itself.
func (o *hubFlags) declare(flags *pflag.FlagSet, embedded bool) {
	o.embedded = embedded
	if embedded {
		flags.StringArrayVar(&o.hub, "hub", []string{hubEmbedded}, "tell the hub at `URL` of changes (repeatable), the one embedded here, or off")
	} else {
		flags.StringArrayVar(&o.hub, "hub", []string{hubOff}, "tell the hub at `URL` of changes (repeatable), or off")
	}
	flags.StringVar(&o.hubTokenFile, "hub-token-file", "", "publish at hubs elsewhere with the token in `FILE`")
	flags.DurationVar(&o.notifyDelay, "notify-delay", defaultNotifyDelay, "let changes gather for this `DURATION` before they are published and told")
}

// settle refuses what cannot be meant.
func (o *hubFlags) settle() error {
	if o.notifyDelay < 0 {
		return usagef("--notify-delay must not be below 0")
	}
	if len(o.hub) > 1 && slices.Contains(o.hub, hubOff) {
		return usageError{fmt.Errorf("--hub: off and another one cannot both be"), "leave out --hub off"}
	}
	for _, v := range o.hub {
		switch u, err := url.Parse(v); {
		case v == hubOff, v == hubEmbedded && o.embedded:
		case v == hubEmbedded:
			return usageError{fmt.Errorf("--hub %s: a hub runs in serve only", v), "name the URL of a hub, as that of lockstep hub"}
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return usageError{fmt.Errorf("--hub %q is no URL", v), "as --hub https://hub.example.org/, or --hub off"}
		}
	}
	return nil
}

// hubs returns the hubs that are told of changes.
func (s *site) hubs() ([]source.Hub, error) {
	var hubs []source.Hub
	for _, v := range s.opts.hubs.hub {
		switch v {
		case hubOff:
		case hubEmbedded:
			if s.hub != nil {
				hubs = append(hubs, source.Hub{URL: s.hub.url, Notifier: s.hub})
			}
		default:
			hubs = append(hubs, source.Hub{URL: v})
		}
	}
	return hubs, nil
}
