package fetch

import "testing"

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
	} {
		if got := WithoutUser(in); got != want {
			t.Errorf("WithoutUser(%q) = %q, want %q", in, got, want)
		}
	}
}
