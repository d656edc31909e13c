package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/storage/postgres/postgrestest"
	"lockstep/websub"
)

// A publicationRequest is a publication as a publisher sends it.
type publicationRequest struct {
	topic, body, token string
	contentType        string // "-": none
	signed             time.Time
	forwarded          string // X-Forwarded-For
}

// send returns the status of the answer, and its text.
func (p publicationRequest) send(t *testing.T, hub string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, hub, strings.NewReader(p.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Link", "<"+p.topic+`>; rel="self"`)
	if p.contentType != "-" {
		r.Header.Set("Content-Type", "text/plain")
	}
	if p.forwarded != "" {
		r.Header.Set("X-Forwarded-For", p.forwarded)
	}
	switch {
	case !p.signed.IsZero():
		date := p.signed.UTC().Format(http.TimeFormat)
		signature, err := websub.SignPublication("sha256", []byte(p.token), p.topic, date, []byte(p.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Date", date)
		r.Header.Set(websub.SignatureHeader, signature)
	case p.token != "":
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	return statusOf(http.DefaultClient.Do(r))
}

func startTokenHub(t *testing.T, tokens string, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := startReady(exec.Command("lockstep", append([]string{"hub", "--listen", "127.0.0.1:0", "--allow-private", "--state", t.TempDir(), "--publish-token-file", file}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// TestHubTokenOfTopics: a token with URLs behind it in the file publishes topics
// below them only; one without publishes any. A publication without a
// Content-Type is refused.
func TestHubTokenOfTopics(t *testing.T) {
	t.Parallel()
	h := startTokenHub(t, "wide\nnarrow https://a.example.org/data/ https://b.example.org/\n", "--state", filepath.Join(t.TempDir(), "state"))
	for _, tt := range []struct {
		p    publicationRequest
		want int
		text string
	}{
		{publicationRequest{topic: "https://c.example.org/x", token: "wide"}, 202, ""},
		{publicationRequest{topic: "https://a.example.org/data/x", token: "narrow"}, 202, ""},
		{publicationRequest{topic: "https://b.example.org/x", token: "narrow"}, 202, ""},
		{publicationRequest{topic: "https://a.example.org/other", token: "narrow"}, 403, "may not publish the topic https://a.example.org/other"},
		{publicationRequest{topic: "https://a.example.org/data/../other", token: "narrow"}, 403, "may not publish the topic"},
		{publicationRequest{topic: "https://a.example.org:8443/data/x", token: "narrow"}, 403, "may not publish the topic"},
		{publicationRequest{topic: "http://a.example.org/data/x", token: "narrow"}, 403, "may not publish the topic"},
		{publicationRequest{topic: "https://a.example.org/data/x", token: "narrow https://a.example.org/data/"}, 401, "not one of those"},
		{publicationRequest{topic: "https://a.example.org/data/x", token: "https://a.example.org/data/"}, 401, "not one of those"},
		{publicationRequest{topic: "https://a.example.org/data/x", token: "wide", contentType: "-"}, 415, "Content-Type"},
	} {
		tt.p.body = "x"
		if status, text := tt.p.send(t, h.address); status != tt.want || !strings.Contains(text, tt.text) {
			t.Errorf("%+v: %d %s, want %d %s", tt.p, status, text, tt.want, tt.text)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("good\nsecret-token data.example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("lockstep", "hub", "--listen", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "state"), "--publish-token-file", bad).CombinedOutput()
	if code, _ := exitCodeOf(err); code != 2 || !strings.Contains(string(out), "token 2: what follows the token is not an http(s) URL") || strings.Contains(string(out), "secret-token") {
		t.Errorf("a prefix that is not a URL: exit %d, %s", code, out)
	}
}

// TestHubsShareSignedPublications: hubs on one database accept a signed
// publication once, whichever is asked, and also one that starts later.
func TestHubsShareSignedPublications(t *testing.T) {
	t.Parallel()
	database, key := postgrestest.URL(t), hubKeyFile(t)
	start := func() *process {
		return startTokenHub(t, "token\nnarrow https://other.example.org/\n", "--state", database, "--key-file", key, "--admin", "off")
	}
	one, two := start(), start()
	p := publicationRequest{topic: "https://data.example.org/news", body: "x", token: "token", signed: time.Now()}
	want := func(h *process, want int) {
		t.Helper()
		if status, text := p.send(t, h.address); status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	want(one, 202)
	want(two, 409)
	want(one, 409)
	two.kill()
	want(start(), 409)
	p.body, p.token = "y", "narrow"
	want(one, 403) // of another topic
	p.token = "token"
	want(one, 202)
	p.signed = p.signed.Add(-10 * time.Minute)
	want(one, 403)
}

// TestHubTrustedProxy: X-Forwarded-For decides whom rate limits count for a
// request only if it comes from a proxy that the operator named.
func TestHubTrustedProxy(t *testing.T) {
	t.Parallel()
	var topics []string
	for i := range 1000 {
		topics = append(topics, fmt.Sprint("hub.url=http://127.0.0.1:9/", i))
	}
	form := "hub.mode=publish&" + strings.Join(topics, "&")
	for proxy, want := range map[string]int{"": 429, "203.0.113.0/24": 429, "127.0.0.1": 202, "127.0.0.0/8": 202} {
		args := []string{"--listen", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "state")}
		if proxy != "" {
			args = append(args, "--trusted-proxy", proxy)
		}
		h := startHub(t, args...)
		ping := func(client string) int {
			k := knock{"POST", "/", form, map[string]string{"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-For": client}}
			status, text, err := k.send(h.address)
			if err != nil || status != 202 && status != 429 {
				t.Fatalf("%d %s, %v", status, text, err)
			}
			return status
		}
		within(t, "one client has used up its share", func() bool { return ping("198.51.100.1") == 429 })
		if got := ping("198.51.100.2"); got != want {
			t.Errorf("trusted proxy %q: a client with another address gets %d, want %d", proxy, got, want)
		}
		h.kill()
	}
	for _, bad := range []string{"proxy.example.org", "127.0.0.1:80", "10.0.0.0/33", "fe80::1%eth0"} {
		out, err := exec.Command("lockstep", "hub", "--listen", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "state"), "--trusted-proxy", bad).CombinedOutput()
		if code, _ := exitCodeOf(err); code != 2 || !strings.Contains(string(out), "--trusted-proxy") || !strings.Contains(string(out), "hint: as --trusted-proxy 127.0.0.1") {
			t.Errorf("--trusted-proxy %s: exit %d, %s", bad, code, out)
		}
	}
}

// TestWithdrawnPublishToken: a token that is removed from the file of a running hub
// is refused from then on, also for signatures; one that is added is valid. While the
// file cannot be used, no token is.
func TestWithdrawnPublishToken(t *testing.T) {
	t.Parallel()
	p := startTokenHub(t, "leaked\nother http://topics.example/\n")
	t.Cleanup(p.kill)
	file := p.cmd.Args[len(p.cmd.Args)-1]
	check := func(text, token string, want int) {
		t.Helper()
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if status, answer := (publicationRequest{topic: "http://topics.example/x", body: text + token, token: token}).send(t, p.address); status != want {
			t.Errorf("with %q, token %s: %d %s, want %d", text, token, status, answer, want)
		}
	}
	check("", "leaked", 202)
	check("other http://topics.example/\n", "leaked", 401)
	check("", "other", 202)
	check("other http://elsewhere.example/\n", "other", 403)
	check("fresh\nother ftp:nonsense\n", "fresh", 503)
	check("\n", "fresh", 503)
	check("fresh\n", "fresh", 202)
	check("", "other", 401)
	status, answer := publicationRequest{topic: "http://topics.example/x", body: "signed", token: "leaked", signed: time.Now().Add(time.Second)}.send(t, p.address)
	if status != 403 && status != 503 { // 503: right after the start no signature is accepted
		t.Errorf("signed with the withdrawn token: %d %s", status, answer)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("", "fresh", 503)
	within(t, "the failure is logged", func() bool { return strings.Contains(p.stderr.String(), "read the publish tokens") })
	if text := p.stderr.String(); strings.Contains(text, "fresh") {
		t.Errorf("logged:\n%s", text)
	}
}
