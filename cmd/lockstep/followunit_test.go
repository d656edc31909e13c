package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// TestFollowReachable tells where follow listens, and by which URL hubs reach
// it: a new user gives --callback alone.
func TestFollowReachable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ callback, listen, wantListen, wantCallback, wantErr string }{
		{"", "", "", "", ""},
		{"", "127.0.0.1:0", "127.0.0.1:*", "", ""},
		{"http://127.0.0.1", "", "127.0.0.1:*", "http://127.0.0.1:*/", ""},
		{"http://127.0.0.1/hook/", "", "127.0.0.1:*", "http://127.0.0.1:*/hook/", ""},
		{"http://127.0.0.1:0/hook", "", "127.0.0.1:*", "http://127.0.0.1:*/hook", ""},
		{"http://mirror.example.net:0/", "", "[::]:*", "http://mirror.example.net:*/", ""},
		{"http://mirror.example.net/", "127.0.0.1:0", "127.0.0.1:*", "http://mirror.example.net/", ""},
		{"http://127.0.0.1/", "127.0.0.1:0", "127.0.0.1:*", "http://127.0.0.1/", ""},
		{"https://mirror.example.net/hook/", "127.0.0.1:0", "127.0.0.1:*", "https://mirror.example.net/hook/", ""},
		{"https://mirror.example.net/hook/", "", "", "", "--callback does not say at which port"},
		{"https://127.0.0.1:8443/", "", "", "", "--callback does not say at which port"},
		{"http://mirror.example.net/", "", "", "", "--callback does not say at which port"},
		{"mirror.example.net", "", "", "", "want a URL by which hubs reach us"},
		{"ftp://mirror.example.net/", "", "", "", "want a URL by which hubs reach us"},
		{"http://mirror.example.net:8090/#x", "", "", "", "without user, query and fragment"},
		{"http://u:p@mirror.example.net:8090/", "", "", "", "without user, query and fragment"},
		{"http://127.0.0.1:0/", "8090", "", "", "want HOST:PORT"},
	} {
		o := following.Callback{URL: tt.callback, Listen: tt.listen}
		l, callback, err := o.Reachable(t.Context())
		if got := report.ErrorText(err); tt.wantErr == "" && err != nil || !strings.Contains(got, tt.wantErr) {
			t.Errorf("--callback %q --listen %q: %v, want %q", tt.callback, tt.listen, err, tt.wantErr)
			continue
		}
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Errorf("--callback %q --listen %q: exit code %d, want %d", tt.callback, tt.listen, exitCode(err), exitUsage)
			}
			continue
		}
		listens, port := "", ""
		if l != nil {
			listens = l.Addr().String()
			port = listens[strings.LastIndexByte(listens, ':')+1:]
			_ = l.Close()
		}
		if want := strings.ReplaceAll(tt.wantListen, "*", port); listens != want {
			t.Errorf("--callback %q --listen %q listens at %q, want %q", tt.callback, tt.listen, listens, want)
		}
		if want := strings.ReplaceAll(tt.wantCallback, "*", port); callback != want {
			t.Errorf("--callback %q --listen %q is called at %q, want %q", tt.callback, tt.listen, callback, want)
		}
	}
}

// TestFollowSaidOnce keeps what fails again and again from filling the log.
func TestFollowSaidOnce(t *testing.T) {
	t.Parallel()
	var said syncBuffer
	w := mirror.Watcher{Io: term.IO{Err: &said}, Once: &report.Once{}}
	for range 5 {
		w.Report(t.Context(), destination.Event{Kind: destination.EventWarning, Err: errors.New("x is down")})
		w.Report(t.Context(), destination.Event{Kind: destination.EventFailed, Err: errors.New("y failed")})
	}
	if got, want := said.String(), "warning: x is down\nfailed: y failed\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	for i := range 3 * report.MostSaid {
		w.Say("", fmt.Errorf("%d", i))
	}
	if n := len(w.Once.Said); n > report.MostSaid {
		t.Errorf("%d sentences remembered, want at most %d", n, report.MostSaid)
	}
}
