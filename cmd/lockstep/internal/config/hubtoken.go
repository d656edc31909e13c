package config

import (
	"fmt"
	"net/url"
	"strings"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// A HubToken is a token and the hub it belongs to: it is sent nowhere else.
type HubToken struct {
	Hub  string // URL: what is at it and below it is the hub
	File string
}

// ParseHubToken reads a value of --hub-token, URL=FILE. Both can have an equals
// sign in them: the URL is one of hubs, if the value begins with one.
func ParseHubToken(value string, hubs []string) (HubToken, error) {
	cut := -1
	for _, h := range hubs {
		if strings.HasPrefix(value, h+"=") {
			cut = max(cut, len(h))
		}
	}
	if cut < 0 {
		cut = strings.IndexByte(value, '=')
	}
	if cut <= 0 || cut == len(value)-1 {
		return HubToken{}, term.Usage(fmt.Errorf("--hub-token %q: want URL=FILE", fetch.WithoutUser(value)), "as --hub-token https://hub.example.org/=hub.token")
	}
	t := HubToken{value[:cut], value[cut+1:]}
	if u, err := url.Parse(t.Hub); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return HubToken{}, term.Usage(fmt.Errorf("--hub-token %s: %q is not the URL of a hub", fetch.WithoutUser(value), fetch.WithoutUser(t.Hub)), "as --hub-token https://hub.example.org/=hub.token")
	}
	return t, nil
}
