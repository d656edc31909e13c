// Package certificate has the listeners of a process speak TLS, with a certificate and
// a key that are files, and are read again when these change.
package certificate

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/term"
)

// Flags are the flags that name the files.
type Flags struct{ cert, key string }

// Declare declares the flags.
func (o *Flags) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.cert, "tls-cert", "", "speak TLS where this process listens, with the certificate chain in `FILE` (PEM), which is read again when it changes; with --tls-key")
	flags.StringVar(&o.key, "tls-key", "", "the key of the certificate is in `FILE` (PEM), which other users must not be able to read")
}

// Open returns the certificate; nil if the listeners do not speak TLS. What goes wrong
// with it later is logged.
func (o *Flags) Open(log *slog.Logger) (*Pair, error) {
	switch {
	case o.cert == "" && o.key == "":
		return nil, nil
	case o.key == "":
		return nil, term.Usage(errors.New("--tls-cert without --tls-key"), "name the file of its key: --tls-key FILE; it may be the same file")
	case o.cert == "":
		return nil, term.Usage(errors.New("--tls-key without --tls-cert"), "name the file of the certificate: --tls-cert FILE")
	}
	p, err := Load(o.cert, o.key, log)
	if err != nil {
		return nil, term.Usage(err, term.HintOf(err))
	}
	return p, nil
}

// WarnAbout warns of what keeps clients from using the certificate at the address that
// they know: it has expired, or names other hosts. p may be nil.
func (p *Pair) WarnAbout(address string, io term.IO) {
	if p == nil {
		return
	}
	for _, problem := range p.problems(address) {
		io.Errorf("warning: %v\n", problem)
		if hint := term.HintOf(problem); hint != "" {
			io.Errorf("hint: %s\n", hint)
		}
	}
}

// Scheme returns that of URLs of a listener with the certificate. p may be nil.
func (p *Pair) Scheme() string {
	if p == nil {
		return "http"
	}
	return "https"
}

// hostOf returns the host of a URL, and whether it is one of https.
func hostOf(address string) (host string, secure bool) {
	u, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	return u.Hostname(), strings.EqualFold(u.Scheme, "https")
}
