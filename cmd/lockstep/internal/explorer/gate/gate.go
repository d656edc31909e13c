// Package gate admits to the explorer only the browser of the user who started it: by a
// token that is exchanged once for a cookie, and by the Host and Origin of each request.
package gate

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"sync/atomic"
)

// A Gate decides which requests are answered. It is safe for concurrent use.
type Gate struct {
	token, session string
	used           atomic.Bool // the token was exchanged
	cookie         string      // its name
	hosts          []string
}

// New returns a Gate for a server at address, HOST:PORT on a loopback interface.
func New(address string) *Gate {
	host, port, _ := net.SplitHostPort(address) // the address of a listener
	hosts := []string{address}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		hosts = append(hosts, net.JoinHostPort("localhost", port))
	}
	return &Gate{token: rand.Text(), session: rand.Text() + rand.Text(), cookie: "lockstep-explore-" + port, hosts: hosts}
}

// Query returns what follows the address of the first page: the token.
func (g *Gate) Query() string { return "?token=" + g.token }

// Handler returns a handler that passes admitted requests on to next. refuse answers the
// others with a status and a sentence.
func (g *Gate) Handler(next http.Handler, refuse func(w http.ResponseWriter, r *http.Request, status int, why string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.isOurs(r.Host) {
			// A page of a stranger whose name leads here by DNS: it must learn nothing.
			http.Error(w, "this server answers only requests to its own address", http.StatusMisdirectedRequest)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !g.isOurOrigin(origin) {
			http.Error(w, "requests from other origins are refused", http.StatusForbidden)
			return
		}
		if g.hasCookie(r) {
			if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
				http.Error(w, "requests from other sites are refused", http.StatusForbidden)
				return
			}
			if r.URL.Query().Has("token") { // the printed address, again
				http.Redirect(w, r, "/", http.StatusSeeOther)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		given := r.URL.Query().Get("token")
		switch {
		case given == "" || !equal(given, g.token):
			refuse(w, r, http.StatusForbidden, "This page needs the address that lockstep explore has printed, with the token in it.")
		case g.used.Swap(true):
			refuse(w, r, http.StatusForbidden, "The token in this address was used already: it admits one browser. For another one, run lockstep explore again.")
		default:
			http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			http.Redirect(w, r, "/", http.StatusSeeOther)
		}
	})
}

func (g *Gate) hasCookie(r *http.Request) bool {
	for _, c := range r.CookiesNamed(g.cookie) {
		if equal(c.Value, g.session) {
			return true
		}
	}
	return false
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (g *Gate) isOurs(host string) bool {
	for _, h := range g.hosts {
		if host == h {
			return true
		}
	}
	return false
}

// isOurOrigin reports whether an Origin header names this server. "null" is that of a
// sandboxed frame, which sends no requests of its own here.
func (g *Gate) isOurOrigin(origin string) bool {
	for _, h := range g.hosts {
		if origin == "http://"+h {
			return true
		}
	}
	return false
}
