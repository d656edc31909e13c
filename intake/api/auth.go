package api

import (
	"errors"
	"net/http"

	"lockstep/internal/trust"
)

// authorize refuses requests that may not use the API. The user who runs the
// process may use it on the admin socket; clients with a token of the API, or with
// the admin token, may use it from anywhere. The address of the client never matters.
func (a *API) authorize(r *http.Request) error {
	if err := trust.CheckOrigin(r); err != nil {
		return refused(err)
	}
	if trust.FromOwner(r) {
		return nil
	}
	token, given := trust.TokenOf(r)
	if !given {
		return &problem{Title: http.StatusText(http.StatusUnauthorized), Status: http.StatusUnauthorized,
			Detail: "want a token, as Authorization: Bearer TOKEN", header: http.Header{"Www-Authenticate": trust.Challenges()}}
	}
	allowed, err := a.guard.Knows(token)
	if !allowed && a.tokens != nil {
		allowed, err = a.tokens.Allow(token)
	}
	switch {
	case err != nil:
		return err
	case !allowed:
		return refuse(http.StatusForbidden, "the token is not one of those that are allowed")
	}
	return nil
}

// refused converts a refusal of the guard into a response of the API.
func refused(err error) error {
	if r, ok := errors.AsType[*trust.Refusal](err); ok {
		return refuse(r.Status, "%s", r.Text)
	}
	return err
}
