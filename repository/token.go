package repository

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"lockstep/catalog"
	"lockstep/oaipmh"
)

// A resumption token contains the complete state of a list (OAI-PMH 2.0, 3.5):
// the server stores nothing, so a token can be used again, and after a restart.
// It is signed, so that clients cannot invent one.
const (
	tokenLife = 7 * 24 * time.Hour
	tokenMark = 12 // bytes of a signature

	keySecret = "k"
)

var tokenCoding = base64.RawURLEncoding

// putToken writes the token at the end of a part of a list.
func (a *answer) putToken(ctx context.Context, l *listing, sets []*index, first int64, more bool) error {
	t := oaipmh.Token{Complete: -1, Cursor: first}
	if l.Whole {
		t.Complete = size(sets)
	}
	if t.Complete >= 0 {
		t.Complete = max(t.Complete, l.Cursor)
	}
	if more {
		l.Issued = a.opts.Now().Unix()
		secret, err := a.key(ctx)
		if err != nil {
			return err
		}
		text, err := json.Marshal(l)
		if err != nil {
			return err // unreachable: strings and numbers
		}
		t.Value = tokenCoding.EncodeToString(append(sign(secret, text), text...))
		t.Expires = time.Unix(l.Issued, 0).Add(tokenLife)
	}
	return a.resp.out.Token(&t)
}

// size returns the number of items in some sets; -1 if several sets have items: some may be
// in more than one, and counting these would take reading everything.
func size(sets []*index) int64 {
	var n int64
	for _, x := range sets {
		items := x.known().Items
		if n > 0 && items > 0 {
			return -1
		}
		n += items
	}
	return n
}

// resume returns the list of a token.
func (a *answer) resume(ctx context.Context, token string) (*listing, error) {
	secret, err := a.key(ctx)
	if err != nil {
		return nil, err
	}
	text, err := tokenCoding.Strict().DecodeString(token)
	if err != nil || len(text) < tokenMark || !hmac.Equal(text[:tokenMark], sign(secret, text[tokenMark:])) {
		return nil, badToken("it is none of ours")
	}
	l := new(listing)
	if err := json.Unmarshal(text[tokenMark:], l); err != nil || l.Verb != a.q.Verb {
		return nil, badToken("it continues another list")
	}
	if age := a.opts.Now().Sub(time.Unix(l.Issued, 0)); age > tokenLife {
		return nil, badToken("it has expired")
	}
	return l, nil
}

func sign(secret, text []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write(text)
	return m.Sum(nil)[:tokenMark]
}

func badToken(why string) *oaipmh.Error {
	return &oaipmh.Error{Code: oaipmh.CodeBadResumptionToken, Message: "the resumption token cannot be used: " + why}
}

// key returns the signing key of tokens, which does not change for the lifetime
// of the catalog.
func (r *Repository) key(ctx context.Context) ([]byte, error) {
	r.secrecy.Lock()
	defer r.secrecy.Unlock()
	if r.secret != nil {
		return r.secret, nil
	}
	is, ok, err := catalog.Find(ctx, r.catalog, notesSet, keySecret)
	if err != nil {
		return nil, err
	}
	text := is.Token
	if !ok {
		fresh := make([]byte, sha256.Size)
		_, _ = rand.Read(fresh) // it never fails
		text = hex.EncodeToString(fresh)
		if _, err := r.catalog.Apply(ctx, notesSet, []catalog.Update{{Record: catalog.Record{URI: keySecret, Length: -1, Token: text}}}); err != nil {
			return nil, err
		}
	}
	if r.secret, err = hex.DecodeString(text); err != nil {
		r.secret = nil
		return nil, err
	}
	return r.secret, nil
}
