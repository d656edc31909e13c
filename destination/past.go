package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"lockstep/resourcesync"
)

// A past is one set of a mirror as it was at an instant of the mirror's own
// clock: as the last run that had ended by then left it.
type past struct {
	at        time.Time // when that run ended
	since     time.Time // the earliest instant there is one of; zero: of none
	watermark time.Time // of the set, on the Source's clock; zero if nobody knows
	sets      *mirrorState

	// held yields what the set held, in the byte order of the URIs. What has
	// no Path may have been held: its versions of that time were dropped.
	// Hashes may be empty where the file was in doubt. Content is to be had
	// from keptContent.
	held iter.Seq2[Held, error]
}

// errNoPast reports that a mirror cannot tell what it was at the instant it was
// asked for: it kept no versions then, or they were dropped.
var errNoPast = errors.New("the mirror kept no versions then")

// ownPast returns what a set of the mirror was at an instant of its own clock.
// The error is an errNoPast when it kept no versions then; since tells from
// when on it did.
func (d *Destination) ownPast(ctx context.Context, at time.Time, set int) (past, error) {
	return past{}, fmt.Errorf("read the history of the mirror%s: %w", d.inDest(), errNoPast)
}

// keptContent opens content that the mirror has: in the file of the resource, if
// that is what it holds now, or among the versions it kept. It is that of the
// hashes and the length (-1: any), or fails with fs.ErrNotExist; a kept version
// that is damaged fails with what is damaged before a byte of the damage is
// handed out.
func (d *Destination) keptContent(ctx context.Context, uri string, hashes resourcesync.Hashes, length int64) (io.ReadCloser, error) {
	return nil, &fs.PathError{Op: "open version of", Path: uri, Err: fs.ErrNotExist}
}
