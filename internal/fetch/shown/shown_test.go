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
