package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/websub"
)

// elsewhere returns the hubs that are told over the network.
func (o *hubFlags) elsewhere() []string {
	var hubs []string
	for _, h := range o.hub {
		if h != hubOff && h != hubEmbedded && !slices.Contains(hubs, h) {
			hubs = append(hubs, h)
		}
	}
	return hubs
}

// settleTokens finds out which token belongs to which hub.
func (o *hubFlags) settleTokens() error {
	hubs := o.elsewhere()
	if o.hubTokenFile != "" {
		switch {
		case len(o.hubTokenList) > 0:
			return term.Usage(errors.New("--hub-token-file and --hub-token contradict each other"), "write --hub-token URL="+o.hubTokenFile)
		case len(hubs) > 1:
			return term.Usage(fmt.Errorf("--hub-token-file: there are %d hubs, and a token belongs to one", len(hubs)), "say which by --hub-token URL=FILE, as --hub-token "+hubs[0]+"="+o.hubTokenFile)
		case len(hubs) == 1:
			o.hubTokens = append(o.hubTokens, config.HubToken{Hub: withoutQuery(hubs[0]), File: o.hubTokenFile})
		}
	}
	for _, v := range o.hubTokenList {
		t, err := config.ParseHubToken(v, hubs)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(hubs, func(h string) bool { return websub.Below(t.Hub, h) }) {
			return term.Usage(fmt.Errorf("--hub-token %s: no --hub is at %s or below it", v, t.Hub), "name the hub with --hub "+t.Hub)
		}
		o.hubTokens = append(o.hubTokens, t)
	}
	return nil
}

// withoutQuery returns a URL up to its path, as the place of a token.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // checked before
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.User = "", false, "", nil
	return u.String()
}

// token returns the token that belongs to a hub, and where it may be sent: the
// one with the longest address, if there are several.
func (o *hubFlags) token(hub string) (token, scope string, err error) {
	var best config.HubToken
	for _, t := range o.hubTokens {
		if websub.Below(t.Hub, hub) && len(t.Hub) > len(best.Hub) {
			best = t
		}
	}
	if best.File == "" {
		return "", "", nil
	}
	text, err := os.ReadFile(best.File)
	if err != nil {
		return "", "", term.Usagef("read the token for the hub %s: %w", hub, err)
	}
	if token = strings.TrimSpace(string(text)); token == "" || strings.ContainsAny(token, "\r\n") {
		return "", "", term.Usagef("read the token for the hub %s: %s does not have one token in it", hub, best.File)
	}
	return token, best.Hub, nil
}
