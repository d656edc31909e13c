package trust

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"
)

// ownerKey marks the context of requests that arrived on the admin socket. No
// request can set it: it never leaves the process.
type ownerKey struct{}

// WithOwner returns a context for requests of the user who runs the process.
// Only a listener that no other user can connect to may give it to a request.
func WithOwner(ctx context.Context) context.Context { return context.WithValue(ctx, ownerKey{}, true) }

// FromOwner reports whether a request arrived on the admin socket.
func FromOwner(r *http.Request) bool {
	owner, _ := r.Context().Value(ownerKey{}).(bool)
	return owner
}

// TokenOf returns the token that a request carries: as a bearer token, or as
// the password that a browser asks its user for.
func TokenOf(r *http.Request) (token string, given bool) {
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// A Refusal is the reason why a request is not trusted.
type Refusal struct {
	Status int // of the answer
	Text   string
}

func (e *Refusal) Error() string { return e.Text }

// Challenges are the values of WWW-Authenticate of an answer with status 401.
func Challenges() []string {
	return []string{`Bearer realm="lockstep"`, `Basic realm="lockstep", charset="UTF-8"`}
}

// A Guard admits the requests of administrators. It is safe for concurrent use.
type Guard struct{ tokens *Tokens }

// NewGuard returns a Guard with the admin tokens; nil means none: then only
// requests on the admin socket are admitted.
func NewGuard(tokens *Tokens) *Guard { return &Guard{tokens} }

// Check returns nil if a request is from an administrator, otherwise a
// [*Refusal], or an error that wraps [ErrTokens] if the tokens cannot be read.
func (g *Guard) Check(r *http.Request) error {
	if !FromOwner(r) {
		if err := g.checkToken(r); err != nil {
			return err
		}
	}
	return CheckOrigin(r)
}

func (g *Guard) checkToken(r *http.Request) error {
	token, given := TokenOf(r)
	if !given {
		return &Refusal{http.StatusUnauthorized, "this takes the admin token, as Authorization: Bearer TOKEN or as a password; or ask on the admin socket"}
	}
	allowed, err := g.Knows(token)
	if err == nil && !allowed {
		err = &Refusal{http.StatusUnauthorized, "the token is not an admin token of this process"}
	}
	return err
}

// Knows reports whether token is an admin token.
func (g *Guard) Knows(token string) (bool, error) {
	if g == nil || g.tokens == nil {
		return false, nil
	}
	return g.tokens.Allow(token)
}

// CheckOrigin refuses a request that a browser sends for a page of another
// site: it would carry the password that its user entered for this one.
func CheckOrigin(r *http.Request) error {
	if err := new(http.CrossOriginProtection).Check(r); err != nil {
		return &Refusal{http.StatusForbidden, "pages of other sites may not ask for this"}
	}
	return nil
}

// checkBody refuses a POST of the kinds that any page can make a browser send
// without a preflight request: a form, or plain text.
func checkBody(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	if typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || typ != "application/json" {
		return &Refusal{http.StatusUnsupportedMediaType, "want Content-Type: application/json"}
	}
	return nil
}

// Protect returns a handler that passes requests of administrators to next, and
// refuses all others.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Vary", "Authorization")
		err := g.Check(r)
		if err == nil {
			err = checkBody(r)
		}
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		status := http.StatusServiceUnavailable // the tokens cannot be read
		if refused, ok := errors.AsType[*Refusal](err); ok {
			status = refused.Status
		}
		if status == http.StatusUnauthorized {
			header["Www-Authenticate"] = Challenges()
		}
		http.Error(w, err.Error(), status)
	})
}
