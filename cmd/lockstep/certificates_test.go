package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCertificates: where the certificate of a Source, a hub or a bucket is not accepted, one
// sentence names the server and the cause, and the hint says whether --ca-file helps; with
// it, the certificate is accepted.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	byName := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	const untrusted, give = "the certificate of 127.0.0.1 is not trusted: it is self-signed", "\nhint: if this is the right server, give this certificate (PEM): --ca-file FILE\n"
	const misnamed, useless = "the certificate of localhost is for example.com, *.example.com, 127.0.0.1, ::1, not for localhost", "; --ca-file does not help\n"
	for name, tt := range map[string]struct {
		args       []string
		endpoint   string
		text, hint string
	}{
		"source":          {[]string{"sync", s.URL, "mirror"}, "", untrusted, give},
		"source's name":   {[]string{"sync", byName, "mirror", "--ca-file", ca}, "", misnamed, useless},
		"trusted source":  {[]string{"sync", s.URL, "mirror", "--ca-file", ca}, "", "no ResourceSync document", "hint: try the address"},
		"document":        {[]string{"validate", s.URL}, "", untrusted, give},
		"hub":             {[]string{"publish", "files", "--out", "out", "--state", "state", "--base-url", "http://x.org/", "--hub", s.URL + "/hub"}, "", untrusted, give},
		"hub's name":      {[]string{"publish", "files", "--out", "out", "--state", "state", "--base-url", "http://x.org/", "--hub", byName + "/hub", "--ca-file", ca}, "", misnamed, useless},
		"bucket":          {[]string{"publish", "s3://bucket/x", "--out", "out", "--state", "state", "--base-url", "http://x.org/"}, s.URL, untrusted, give},
		"bucket's name":   {[]string{"publish", "s3://bucket/x", "--out", "out", "--state", "state", "--base-url", "http://x.org/", "--ca-file", ca}, byName, misnamed, useless},
		"mirror":          {[]string{"sync", "http://127.0.0.1:1/", "s3://bucket/x", "--state", "state"}, s.URL, untrusted, give},
		"monitor":         {[]string{"validate", "./a.xml", "--ping-url", s.URL + "/x"}, "", untrusted, give},
		"trusted monitor": {[]string{"validate", "./a.xml", "--ping-url", s.URL + "/x", "--ca-file", ca}, "", "", "404 Not Found"},
		"trusted mirror":  {[]string{"sync", "http://127.0.0.1:1/", "s3://bucket/x", "--state", "state", "--ca-file", ca}, s.URL, "", "--ca-file FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room := t.TempDir()
			if tt.args[1] == "files" { // a hub is notified of changes
				changeFiles(t, room, tt.args)
			}
			cmd := exec.Command("lockstep", append(tt.args, "-q")...)
			cmd.Dir = room
			cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+tt.endpoint, "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s", "AWS_REGION=us-east-1")
			out, err := cmd.CombinedOutput()
			code, err := exitCodeOf(err)
			said := string(out)
			if tt.text == "" && tt.args[0] == "validate" || strings.HasPrefix(name, "monitor") { // begin and end of the run
				if err != nil || strings.Count(said, tt.text+tt.hint) != 2 {
					t.Errorf("ended with %d, %v\n%s", code, err, said)
				}
				return
			}
			if name == "trusted mirror" {
				if err != nil || code != exitFailed || strings.Contains(said, "certificate") {
					t.Errorf("ended with %d, %v\n%s", code, err, said)
				}
				return
			}
			if err != nil || code != exitFailed || strings.Count(said, tt.text) != 1 || !strings.Contains(said, tt.hint) {
				t.Errorf("ended with %d, %v, want %q and hint %q\n%s", code, err, tt.text, tt.hint, said)
			}
			if strings.Contains(said, "x509") || strings.Contains(said, "tls:") {
				t.Errorf("said\n%s", said)
			}
		})
	}
}

// changeFiles makes the directory that the arguments publish, publishes it, and changes it.
func changeFiles(t *testing.T, room string, args []string) {
	t.Helper()
	files := filepath.Join(room, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "other"} {
		if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text == "other" {
			return
		}
		cmd := exec.Command("lockstep", args...)
		cmd.Dir = room
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}
