package term

import (
	"fmt"
	"regexp"
	"strings"

	"lockstep/internal/fetch/shown"
)

// Interrupted returns the error of a command that a signal has interrupted: what is done, if
// that is known, and that the same command continues.
func (io IO) Interrupted(done string) error {
	err := ErrInterrupted
	if done != "" {
		err = fmt.Errorf("%w: %s", ErrInterrupted, done)
	}
	if line := CommandLine(io.Args); line != "" {
		return WithHint(err, "progress is saved; to continue, run the same command again: "+line)
	}
	return WithHint(err, "progress is saved; run the same command again to continue")
}

// mayBeSecret matches arguments that are not repeated: addresses with passwords, headers,
// signed URLs.
var mayBeSecret = regexp.MustCompile(`(?i)://[^/?#]*@|^--header|token=|secret|passw|signature|[?&](sig|key|auth)[^=]*=`)

// CommandLine returns the command line with these arguments as a shell takes it; "" if one
// of them may be secret.
func CommandLine(args []string) string {
	words := []string{"lockstep"}
	for _, arg := range args {
		if mayBeSecret.MatchString(arg) || shown.WithoutSecrets(arg) != arg {
			return ""
		}
		words = append(words, quoted(arg))
	}
	if len(args) == 0 {
		return ""
	}
	return strings.Join(words, " ")
}

// unquoted matches words that mean themselves in a shell.
var unquoted = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func quoted(word string) string {
	if unquoted.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
