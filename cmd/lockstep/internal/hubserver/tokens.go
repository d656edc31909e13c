package hubserver

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub"
	"lockstep/internal/trust"
)

// tokenLines is the hint for a line of a token file that cannot be used.
const tokenLines = "write each line as TOKEN, or as TOKEN URL for topics below that URL only"

// PublishTokens are the tokens that entitle to publish at a hub, as their file has
// them at the moment: a token that was removed from it is not valid any more.
type PublishTokens struct {
	Path string // of the file
	file *trust.Tokens
	log  *slog.Logger

	mu     sync.Mutex // guards what follows
	text   []string
	tokens []hub.PublishToken
	failed string // the error that was logged last
}

// OpenPublishTokens opens the file that was given, or one that is made in the
// directory state.
func OpenPublishTokens(flag, file, state string, log *slog.Logger) (*PublishTokens, error) {
	t := &PublishTokens{Path: file, log: log}
	var err error
	if file == "" {
		if t.Path, err = filepath.Abs(filepath.Join(state, admin.PublishTokenName)); err != nil {
			return nil, err
		}
		if t.file, err = trust.MakeTokens(t.Path); err != nil {
			return nil, term.WithHint(err, "remove the file; a new token is then created")
		}
	} else if t.file, err = trust.ReadTokens(file); err != nil {
		return nil, term.Usage(fmt.Errorf("--%s: %w", flag, err), "")
	}
	switch _, err := t.read(); {
	case err == nil:
		return t, nil
	case file != "":
		return nil, term.Usage(fmt.Errorf("--%s: %w", flag, err), tokenLines)
	default:
		return nil, term.WithHint(err, tokenLines)
	}
}

// Current returns the tokens that are in the file now. An error is logged once.
func (t *PublishTokens) Current() ([]hub.PublishToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tokens, err := t.read()
	switch {
	case err == nil && t.failed != "":
		t.failed = ""
		t.log.Info("the publish tokens can be read again", slog.String("file", t.Path))
	case err != nil && err.Error() != t.failed:
		t.failed = err.Error()
		t.log.Error("read the publish tokens: nothing that takes a token is accepted", slog.String("err", t.failed))
	}
	return tokens, err
}

// read returns the tokens, the same slice as long as the file is the same.
func (t *PublishTokens) read() ([]hub.PublishToken, error) {
	text, err := t.file.Current()
	if err != nil {
		return nil, err
	}
	if len(text) == len(t.text) && &text[0] == &t.text[0] { // there is at least one
		return t.tokens, nil
	}
	tokens, err := parsePublishTokens(text)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", t.Path, err)
	}
	t.text, t.tokens = text, tokens
	return tokens, nil
}

// parsePublishTokens reads lines of a token, and the URLs below which it may
// publish; without a URL it may publish any topic. Errors do not show tokens.
func parsePublishTokens(lines []string) ([]hub.PublishToken, error) {
	var tokens []hub.PublishToken
	for i, line := range lines {
		fields := strings.Fields(line)
		t := hub.PublishToken{Token: fields[0], Prefixes: fields[1:]} // lines are not blank
		for _, p := range t.Prefixes {
			if !config.IsAbsoluteURI(p) || !(strings.HasPrefix(p, "http://") || strings.HasPrefix(p, "https://")) {
				return nil, fmt.Errorf("token %d: what follows the token is not an http(s) URL", i+1)
			}
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}
