package term

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// A warnings handler is the log of a command that is not a service: records from the level of warnings on
// are written like its messages, all others as the handler below does.
type warnings struct {
	below slog.Handler
	to    io.Writer
	attrs []slog.Attr // of all records
}

var _ slog.Handler = (*warnings)(nil)

// Enabled implements [slog.Handler].
func (w *warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return w.below.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (w *warnings) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return w.below.Handle(ctx, r)
	}
	head, text, hint, name := "warning: ", r.Message, "", ""
	if r.Level >= slog.LevelError {
		head = "error: "
	}
	var about []string
	add := func(a slog.Attr) bool {
		switch value := a.Value.String(); a.Key {
		case "err":
			text += ": " + strings.ReplaceAll(value, "\n", "\n  ")
		case "hint":
			hint = value
		case "mirror":
			name = value
		default:
			about = append(about, a.Key+" "+value)
		}
		return true
	}
	for _, a := range w.attrs {
		add(a)
	}
	r.Attrs(add)
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	text = head + text + "\n"
	if hint != "" {
		text += "hint: " + hint + "\n"
	}
	_, err := w.to.Write(prefixed(name, []byte(text)))
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (w *warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &warnings{w.below.WithAttrs(attrs), w.to, append(slices.Clip(w.attrs), attrs...)}
}

// WithGroup implements [slog.Handler]. People need no groups.
func (w *warnings) WithGroup(name string) slog.Handler {
	return &warnings{w.below.WithGroup(name), w.to, w.attrs}
}
