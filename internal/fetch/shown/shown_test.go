package shown

import "testing"

func TestRedacted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://x/a":                                 "http://x/a",
		"http://user:pw@x/a?b=c":                     "http://x/a?b=c",
		"http://x/?verb=ListRecords&set=a":           "http://x/?verb=ListRecords&set=a",
		"http://x/?verb=L&resumptionToken=12":        "http://x/?verb=L&resumptionToken=12",
		"http://x/a?X-Amz-Signature=s&X-Amz-Date=d":  "http://x/a?X-Amz-Signature=REDACTED&X-Amz-Date=d",
		"http://x/a?access_token=s&n=1&sig=s#f":      "http://x/a?access_token=REDACTED&n=1&sig=REDACTED#f",
		"http://x/a?Pass%77ord=s&token&apikey=s&k=%": "http://x/a?Pass%77ord=REDACTED&token&apikey=REDACTED&k=%",
	} {
		if got := Redacted(in); got != want {
			t.Errorf("Redacted(%s) = %s, want %s", in, got, want)
		}
	}
	if got := WithoutQuery("http://u@x/a?b"); got != "http://x/a" {
		t.Errorf("WithoutQuery = %s", got)
	}
}

func TestRedactedIn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, uri, want string }{
		{"get http://x/a: no", "http://x/a", "get http://x/a: no"},
		{"store http://x/a?token=s&n=1 in d: full", "http://x/a?token=s&n=1", "store http://x/a?token=REDACTED&n=1 in d: full"},
		{`verify http://x/\u200b?token=s: no`, "http://x/\u200b?token=s", `verify http://x/\u200b?token=REDACTED: no`},
		{"no address", "", "no address"},
	} {
		if got := RedactedIn(test.text, test.uri); got != test.want {
			t.Errorf("RedactedIn(%q, %s) = %q, want %q", test.text, test.uri, got, test.want)
		}
	}
}
