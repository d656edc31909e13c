package hubserver

import (
	"fmt"
	"path/filepath"
	"strings"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub"
	"lockstep/internal/trust"
)

// PublishTokens returns the tokens that entitle to publish at a hub: those in
// the file that was given, or one that is made in the directory state.
func PublishTokens(flag, file, state string) (path string, tokens []hub.PublishToken, err error) {
	if file != "" {
		t, err := trust.ReadTokens(file)
		if err != nil {
			return "", nil, term.Usage(fmt.Errorf("--%s: %w", flag, err), "")
		}
		tokens, err := parsePublishTokens(t.All())
		if err != nil {
			return "", nil, term.Usage(fmt.Errorf("--%s %s: %w", flag, file, err), "write each line as TOKEN, or as TOKEN URL for topics below that URL only")
		}
		return file, tokens, nil
	}
	if path, err = filepath.Abs(filepath.Join(state, admin.PublishTokenName)); err != nil {
		return "", nil, err
	}
	t, err := trust.MakeTokens(path)
	if err != nil {
		return "", nil, term.WithHint(err, "remove the file, and a new token is made")
	}
	if tokens, err = parsePublishTokens(t.All()); err != nil {
		return "", nil, term.WithHint(fmt.Errorf("token file %s: %w", path, err), "write each line as TOKEN, or as TOKEN URL for topics below that URL only")
	}
	return path, tokens, nil
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
