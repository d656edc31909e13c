package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
)

// maxFile caps a file of certificates or of a key: a larger one is something else.
const maxFile = 1 << 20

// read reads a certificate and its key. Its errors name the file that has to be changed.
func read(certFile, keyFile string) (*tls.Certificate, error) {
	chain, err := readFile(certFile, nil)
	if err != nil {
		return nil, fmt.Errorf("read the TLS certificate: %w", err)
	}
	if err := checkChain(certFile, chain); err != nil {
		return nil, err
	}
	key, err := readFile(keyFile, checkMode)
	if err != nil {
		return nil, fmt.Errorf("read the key of the TLS certificate: %w", err)
	}
	if err := checkKey(keyFile, key); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, term.WithHint(fmt.Errorf("the key %s does not belong to the TLS certificate %s", keyFile, certFile),
			"name the key that the certificate was made for; the first certificate of the file must be that of this server, the ones that issued it follow")
	}
	return &pair, nil
}

// readFile reads a file that passes check, which may be nil.
func readFile(path string, check func(path string, info os.FileInfo) error) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case check != nil:
		if err := check(path, info); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %s", path, term.Size(maxFile))
	}
	return text, err
}

// checkMode refuses the file of a key that other users can read. Members of its group
// may read it, as Debian's group ssl-cert does, but not write it.
func checkMode(path string, info os.FileInfo) error {
	mode := info.Mode().Perm()
	switch {
	case runtime.GOOS == "windows" || mode&0o026 == 0:
		return nil
	case mode&0o004 != 0:
		return term.WithHint(fmt.Errorf("%s can be read by every user of this machine (mode %04o)", path, mode), "chmod o= "+path+", and consider replacing the certificate: others may have read its key")
	}
	return term.WithHint(fmt.Errorf("%s can be changed by other users than its owner (mode %04o)", path, mode), "chmod g-wx,o= "+path)
}

// checkChain refuses a file without certificates.
func checkChain(path string, text []byte) error {
	block := firstBlock(text, isCertificate)
	if block == nil {
		return term.WithHint(fmt.Errorf("%s has no TLS certificate in it", path), "name a file in PEM format, which has a line -----BEGIN CERTIFICATE-----")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("read the TLS certificate %s: %w", path, err)
	}
	return nil
}

// checkKey refuses a file without a key that can be used.
func checkKey(path string, text []byte) error {
	block := firstBlock(text, func(typ string) bool { return strings.HasSuffix(typ, "PRIVATE KEY") })
	switch {
	case block == nil:
		return term.WithHint(fmt.Errorf("%s has no key of a TLS certificate in it", path), "name a file in PEM format, which has a line -----BEGIN PRIVATE KEY-----")
	case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
		return term.WithHint(fmt.Errorf("the key %s is encrypted with a passphrase", path), "decrypt it into a file that only this user can read: umask 077; openssl pkey -in "+path+" -out FILE")
	}
	_, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	for _, parse := range []func() error{
		func() error { _, err := x509.ParsePKCS1PrivateKey(block.Bytes); return err },
		func() error { _, err := x509.ParseECPrivateKey(block.Bytes); return err },
	} {
		if err == nil || parse() == nil {
			return nil
		}
	}
	return fmt.Errorf("read the key %s: %w", path, err)
}

// firstBlock returns the first PEM block of a type; nil if there is none.
func firstBlock(text []byte, is func(typ string) bool) *pem.Block {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil || is(block.Type) {
			return block
		}
	}
}

// validity returns an error if a certificate is not valid, or not for long.
func validity(file string, c *x509.Certificate, now time.Time) error {
	const renew = "renew it; the new files are used without a restart"
	switch left := c.NotAfter.Sub(now); {
	case now.Before(c.NotBefore):
		return term.WithHint(fmt.Errorf("the TLS certificate %s is valid from %s on: clients refuse it until then", file, c.NotBefore.UTC().Format(time.RFC3339)), "check the clock of this machine")
	case left <= 0:
		return term.WithHint(fmt.Errorf("the TLS certificate %s expired at %s: clients refuse it", file, c.NotAfter.UTC().Format(time.RFC3339)), renew)
	case left < expiryNotice:
		return term.WithHint(fmt.Errorf("the TLS certificate %s expires at %s", file, c.NotAfter.UTC().Format(time.RFC3339)), renew)
	}
	return nil
}

// errOutdated reports a certificate that clients refuse, while they accept the one in use.
var errOutdated = errors.New("it is not valid now, and the one in use is")

// replaceable returns why a certificate cannot take the place of the one in use.
func replaceable(file string, used, fresh *x509.Certificate, now time.Time) error {
	valid := func(c *x509.Certificate) bool { return !now.Before(c.NotBefore) && now.Before(c.NotAfter) }
	if valid(used) && !valid(fresh) {
		return fmt.Errorf("use the TLS certificate %s: %w", file, errOutdated)
	}
	return nil
}

// problems returns why clients that know an address refuse the certificate.
func (p *Pair) problems(address string) (all []error) {
	leaf := p.current.Load().Leaf
	if err := validity(p.certFile, leaf, time.Now()); err != nil {
		all = append(all, err)
	}
	host, secure := hostOf(address)
	switch {
	case !secure:
		all = append(all, term.WithHint(fmt.Errorf("%s begins with http://, and with --tls-cert this process answers https:// only", address), "write it with https://, if clients connect to this process themselves"))
	case leaf.VerifyHostname(host) != nil:
		all = append(all, term.WithHint(fmt.Errorf("the TLS certificate %s is %s, not for %s: clients that connect to %s refuse it", p.certFile, namesOf(leaf), host, address),
			"use a certificate for that name, or give the address that clients use"))
	}
	return all
}

// Pinned returns the configuration of a client that trusts the certificate in a file, by
// whatever address its process is reached, and no other.
func Pinned(certFile string) (*tls.Config, error) {
	text, err := readFile(certFile, nil)
	if err != nil {
		return nil, fmt.Errorf("read the TLS certificate: %w", err)
	}
	if err := checkChain(certFile, text); err != nil {
		return nil, err
	}
	leaf := firstBlock(text, isCertificate).Bytes
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection is stricter
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, leaf) {
				return fmt.Errorf("its certificate is not the one in %s", certFile)
			}
			return nil
		},
	}, nil
}

func isCertificate(typ string) bool { return typ == "CERTIFICATE" }

// maxNames is how many names of a certificate a message lists.
const maxNames = 5

// namesOf says for which hosts a certificate is.
func namesOf(c *x509.Certificate) string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "for no host name"
	}
	if n := len(names) - maxNames; n > 0 {
		names = append(names[:maxNames:maxNames], term.Count(int64(n), "more name"))
	}
	return "for " + strings.Join(names, ", ")
}
