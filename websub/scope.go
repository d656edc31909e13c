package websub

import (
	"net/url"
	"path"
	"strings"
)

// Below reports whether address is the URL place or below it: whether it has the
// same scheme, host and port, and a path that begins with that of place,
// comparing whole segments. The default port of a scheme equals a missing one.
func Below(place, address string) bool {
	p, err := parseHTTP(place)
	if err != nil {
		return false
	}
	u, err := parseHTTP(address)
	return err == nil && below(p, u)
}

func below(place, u *url.URL) bool {
	if authority(place) != authority(u) {
		return false
	}
	root, own := strings.TrimSuffix(place.Path, "/"), u.Path
	if own == "" {
		own = "/"
	}
	if path.Clean(own) != own && path.Clean(own)+"/" != own {
		return false // dot segments may lead anywhere
	}
	return own == root || strings.HasPrefix(own, root+"/")
}

// authority returns scheme, host and port of a URL in a canonical spelling.
func authority(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) + ":" + port
}
