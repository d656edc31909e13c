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

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"read http://x/a?token=s: line 1":                   "read http://x/a?token=REDACTED: line 1",
		`read "http://x/a?b=c&sig=s&n=1" (http://x/?key=s)`: `read "http://x/a?b=c&sig=REDACTED&n=1" (http://x/?key=REDACTED)`,
		"write m/a%~=3Fn=1&token=s: no space left":          "write m/a%~=3Fn=1&token=REDACTED: no space left",
		"write m/a%~=3Ftoken=s.x; rest":                     "write m/a%~=3Ftoken=REDACTED; rest",
		"get http://user:pw@x/a and postgres://p:w@h/d":     "get http://x/a and postgres://h/d",
		"http://x/?verb=L&resumptionToken=12":               "http://x/?verb=L&resumptionToken=12",
		"a=b, token=c, a@b":                                 "a=b, token=c, a@b",
		"postgres://user@h/d":                               "postgres://user@h/d",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%s) = %s, want %s", in, got, want)
		}
	}
	if got, want := Whole("http://x/\u200b?token=s"), `http://x/\u200b?token=s`; got != want {
		t.Errorf("Whole = %s, want %s", got, want)
	}
}
