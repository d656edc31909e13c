package certificate

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/term"
)

const (
	// lookEvery is how often the files are looked at while clients connect.
	lookEvery = time.Second

	// expiryNotice is how long before its end a certificate is said to expire: tools that
	// renew certificates do so a month before, and have had two weeks to fail.
	expiryNotice = 14 * 24 * time.Hour

	// noticeEvery is how often that is logged again.
	noticeEvery = 24 * time.Hour
)

// A Pair is a certificate with its key, as their files have them. A pair that cannot be
// used does not replace one that can: it is reported, and the one in use stays. All methods are
// safe for concurrent use, and those that say so accept nil, for no TLS.
type Pair struct {
	certFile, keyFile string
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]
	due               atomic.Int64 // when the files are to be looked at next, in Unix nanoseconds

	looking sync.Mutex // one look at a time, for files may be slow; others use what is current. It guards what follows
	state   [2]fileState
	failing bool      // the files could not be used when they were last looked at
	failed  string    // the error that was logged last
	noticed time.Time // when it was last logged that the certificate expires
}

// A fileState distinguishes versions of a file.
type fileState struct {
	size    int64
	changed time.Time
	mode    os.FileMode
	info    os.FileInfo // nil: the file cannot be looked at
}

// same reports whether the file is the same, with the same content as far as its
// attributes show.
func (s *fileState) same(o *fileState) bool {
	return s.size == o.size && s.changed.Equal(o.changed) && s.mode == o.mode &&
		(s.info == nil) == (o.info == nil) && (s.info == nil || os.SameFile(s.info, o.info))
}

// stateOf looks at a file, or at the one that a symbolic link leads to.
func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{size: info.Size(), changed: info.ModTime(), mode: info.Mode(), info: info}
}

// Load reads a certificate and its key.
func Load(certFile, keyFile string, log *slog.Logger) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile, log: log, noticed: time.Now()}
	p.due.Store(time.Now().Add(lookEvery).UnixNano())
	p.state = p.states() // before the files are read: a change in between is seen at the next look
	c, err := read(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	p.current.Store(c)
	return p, nil
}

func (p *Pair) states() [2]fileState {
	return [2]fileState{stateOf(p.certFile), stateOf(p.keyFile)}
}

// Over returns a listener that speaks TLS over l, or l itself if p is nil. Servers of it
// offer HTTP/2.
func (p *Pair) Over(l net.Listener) net.Listener {
	if p == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return p.at(time.Now()), nil
		},
	})
}

// Expires returns when the certificate in use expires.
func (p *Pair) Expires() time.Time { return p.at(time.Now()).Leaf.NotAfter }

// at returns the certificate for a client that connects now.
func (p *Pair) at(now time.Time) *tls.Certificate {
	if now.UnixNano() >= p.due.Load() && p.looking.TryLock() {
		p.due.Store(now.Add(lookEvery).UnixNano())
		p.look(now)
		p.notice(now)
		p.looking.Unlock()
	}
	return p.current.Load()
}

// look reads the files again if they have changed, or could not be used the last time.
// An error is logged at the second look that finds it: a tool that renews the certificate may
// have replaced one file and not yet the other. p.looking is held.
func (p *Pair) look(now time.Time) {
	state := p.states()
	if !p.failing && state[0].same(&p.state[0]) && state[1].same(&p.state[1]) {
		return
	}
	p.state = state
	used := p.current.Load().Leaf
	fresh, err := read(p.certFile, p.keyFile)
	if err == nil {
		err = replaceable(p.certFile, used, fresh.Leaf, now)
	}
	if err != nil {
		if text := err.Error(); p.failing && text != p.failed {
			p.failed = text
			args := []any{slog.String("err", text)}
			if hint := term.HintOf(err); hint != "" {
				args = append(args, slog.String("hint", hint))
			}
			p.log.Error("the TLS certificate is not replaced, and the one in use stays", args...)
		}
		p.failing = true
		return
	}
	if !fresh.Leaf.Equal(used) || p.failed != "" {
		level := slog.LevelInfo
		if p.failed != "" {
			level = slog.LevelWarn // those who have seen the failure see its end
		}
		p.log.Log(context.Background(), level, "the TLS certificate was read again", slog.String("file", p.certFile), slog.Time("expires", fresh.Leaf.NotAfter))
		p.noticed = time.Time{}
	}
	p.current.Store(fresh)
	p.failing, p.failed = false, ""
}

// notice logs that the certificate has expired or is about to. p.looking is held.
func (p *Pair) notice(now time.Time) {
	if now.Sub(p.noticed) < noticeEvery {
		return
	}
	if err := validity(p.certFile, p.current.Load().Leaf, now); err != nil {
		p.noticed = now
		p.log.Warn("the TLS certificate has to be renewed", slog.String("err", err.Error()))
	}
}
