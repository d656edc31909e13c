package source

import "lockstep/source/internal/names"

// BaseURL returns the base URL in the form in which addresses begin with it:
// checked, encoded as a URI, with a slash at the end.
func BaseURL(s string) (string, error) {
	b, err := names.ParseBase(s)
	return b.Prefix, err
}

// CapabilityListURI returns the URI of the set's Capability List below baseURL,
// which is also the set's name in the catalog.
func CapabilityListURI(baseURL, set string) (string, error) {
	base, err := names.ParseBase(baseURL)
	if err != nil {
		return "", err
	}
	if err := names.Set(set).Check(); err != nil {
		return "", err
	}
	return base.URI(names.Set(set).CapabilityList()), nil
}

// TopicURI returns the URI of the topic of notifications about the set below
// baseURL (RN-CH-01).
func TopicURI(baseURL, set string) (string, error) {
	if _, err := CapabilityListURI(baseURL, set); err != nil {
		return "", err
	}
	base, err := names.ParseBase(baseURL)
	return base.URI(names.Set(set).Topic()), err
}

// Reserved reports whether rel, a slash-separated path below the base URL, is
// an address of a document or page, or below a directory with lockstep's state.
// No resource can be published there.
func Reserved(rel string) bool { return names.Reserved(rel) }
