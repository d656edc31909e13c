package fetch

import (
	"strings"
	"testing"
)

func TestWithoutUser(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://example.org/a@b":                    "https://example.org/a@b",
		"https://user@example.org/":                  "https://example.org/",
		"https://user:p@ss@example.org:8080/a?b@c":   "https://example.org:8080/a?b@c",
		"oai-pmh:https://u:secret@example.org?x=a@b": "oai-pmh:https://example.org?x=a@b",
		"dir@a/list.xml":                             "dir@a/list.xml",
		"file:///a@b":                                "file:///a@b",
		"":                                           "",
		"u:secret@example.org:8080/a@b":              "example.org:8080/a@b",
		"u:p@ss@example.org?u=http://x/":             "example.org?u=http://x/",
		"OAI-PMH:u:secret@example.org/oai":           "OAI-PMH:example.org/oai",
		"oai-pmh:user@example.org/oai":               "oai-pmh:user@example.org/oai",
		"example.org:8080/a:b@c":                     "example.org:8080/a:b@c",
		`C:\a@b\list.xml`:                            `C:\a@b\list.xml`,
		`C:\a/b@c`:                                   `C:\a/b@c`,
		"c:/a@b":                                     "c:/a@b",
		"tag:example.org,2026:a/1@2":                 "tag:example.org,2026:a/1@2",
		"urn:example:a/b@c":                          "urn:example:a/b@c",
		"http://[::1]/a@b":                           "http://[::1]/a@b",
		"http://[::1]:80/a@b":                        "http://[::1]:80/a@b",
		"http://example.org:/a@b":                    "http://example.org:/a@b",
		"http://example.org:8080?a@b":                "http://example.org:8080?a@b",
		"oai-pmh:example.org:8080/a@b":               "oai-pmh:example.org:8080/a@b",
		"oai-pmh:example.org/a@b":                    "oai-pmh:example.org/a@b",
		"http://bob:pw#word@example.org:1/":          "http://example.org:1/",
		"http://bob:pw/word@example.org/":            "http://example.org/",
		"http://bob:p?w@x/y@example.org/a?b#c":       "http://example.org/a?b#c",
		"http://b@c:pw/word@example.org/":            "http://example.org/",
		"http://urn:pw/word@example.org/":            "http://example.org/",
		"http://:pw/word@example.org/":               "http://example.org/",
		"http://[::1]:pw/":                           "http://[::1]:pw/",
		"http://example.org:pw/":                     "http://example.org:pw/",
		"doi:10.1000/a@b":                            "doi:10.1000/a@b",
		"oai:example.org:files/a@b":                  "oai:example.org:files/a@b",
		"jsonl:feeds/a@b.jsonl":                      "jsonl:feeds/a@b.jsonl",
		"oai-pmh:bob:pw/word@example.org/oai":        "oai-pmh:example.org/oai",
		"oai-pmh:http://bob:pw/w@example.org/oai":    "oai-pmh:http://example.org/oai",
	} {
		if got := WithoutUser(in); got != want {
			t.Errorf("WithoutUser(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestErrorsShowNoSecrets: errors, which are logged and reported, have no parameters of
// addresses that are secret by their names.
func TestErrorsShowNoSecrets(t *testing.T) {
	t.Parallel()
	const uri, shown = "https://example.org/a?x=1&token=hidden", "https://example.org/a?x=1&token=REDACTED"
	for _, err := range []error{
		&Error{URI: uri, Err: errClosed},
		&Error{URI: "https://example.org/", Chain: []string{uri}, Err: errClosed},
		&RedirectError{To: uri, Reason: "it is refused"},
		&BodyError{URI: uri, Want: -1, Err: errClosed},
	} {
		if got := err.Error(); strings.Contains(got, "hidden") || !strings.Contains(got, shown) {
			t.Errorf("%T: %s", err, got)
		}
	}
}
