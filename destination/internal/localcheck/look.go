package localcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A state is the result of examining one file.
type state uint8

const (
	right   state = iota // as recorded
	refresh              // as recorded, but the record is incomplete
	touched              // the content has to be compared
	missing
	changed
	unknown // it cannot be examined; err is the reason
)

// A look is the result of examining the path of one row.
type look struct {
	row   journal.Held
	state state
	cause string
	other bool // according to the store it is not the version recorded
	err   error
}

// lookAt examines the files of a chunk. It reads the rows of a page only if one of
// its files differs from its record.
func (c *check) lookAt(ctx context.Context, k *chunk) (err error) {
	if k.rows != nil {
		k.looks, err = c.examine(ctx, k.rows)
		return err
	}
	names := make([]string, len(k.page.Files))
	for i := range names {
		names[i] = k.page.Files[i].Path
	}
	same := true
	err = c.m.Files.(blob.BatchStater).StatAll(ctx, names, func(i int, info blob.Info, err error) {
		f := &k.page.Files[i]
		same = same && err == nil && isAsRecorded(&journal.Held{Length: f.Length, Written: f.Written, Tag: f.Tag}, &info)
	})
	if err != nil || same {
		return err
	}
	var rows []journal.Held
	from := k.page.After
	if from != "" {
		from += "\x00" // the page begins after it
	}
	for h, err := range c.m.Journal.Held(ctx, from, k.page.Last+"\x00") {
		if err != nil {
			return err
		}
		rows = append(rows, h)
	}
	k.looks, err = c.examine(ctx, rows)
	return err
}

// examine compares the files of rows with their records and returns those that
// differ.
func (c *check) examine(ctx context.Context, rows []journal.Held) ([]look, error) {
	var looks []look
	var failed error
	each := func(i int, info blob.Info, err error) {
		h := &rows[i]
		if failed != nil || err == nil && isAsRecorded(h, &info) {
			return
		}
		l, lerr := c.compare(h, &info, err)
		if lerr != nil {
			failed = lerr
		} else if l.state != right {
			looks = append(looks, l)
		}
	}
	var err error
	if b, ok := c.m.Files.(blob.BatchStater); ok {
		names := make([]string, len(rows))
		for i := range rows {
			names[i] = rows[i].Path
		}
		err = b.StatAll(ctx, names, each)
	} else {
		for i := range rows {
			info, serr := c.m.Files.Stat(ctx, rows[i].Path)
			if err = ctx.Err(); err != nil {
				break
			}
			each(i, info, serr)
		}
	}
	if failed != nil || err != nil {
		return nil, cmp.Or(failed, err)
	}
	for i := range looks {
		if l := &looks[i]; l.state == touched && l.other {
			if err := c.read(ctx, l); err != nil {
				return nil, err
			}
		}
	}
	return looks, nil
}

// isAsRecorded reports whether a file matches its record.
func isAsRecorded(h *journal.Held, info *blob.Info) bool {
	switch {
	case h.Length != info.Size:
		return false
	case info.Version != "":
		return info.Version == h.Tag
	}
	return !h.Written.IsZero() && info.ModTime.UnixMicro() == h.Written.UnixMicro()
}

// compare compares a file with its record, without reading it. If only the content
// can show whether the file is right, the state is touched.
func (c *check) compare(h *journal.Held, info *blob.Info, err error) (look, error) {
	l := look{row: *h}
	switch {
	case errors.Is(err, blob.ErrNotExist), errors.Is(err, blob.ErrNotDirectory):
		l.state, l.cause = missing, "the file is gone"
	case errors.Is(err, blob.ErrDirectory):
		l.state, l.cause = missing, "a directory is in its place"
	case errors.Is(err, blob.ErrForeign):
		l.state, l.cause = missing, "a link or device is in its place"
	case failure.IsUnreadable(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return l, fmt.Errorf("look at the files of the mirror%s: %w", c.m.In, err)
	case err != nil:
		l.state, l.err = unknown, err
	case len(h.Hashes) == 0: // it is going to be fetched again
	case info.Size != h.Length:
		l.state, l.cause = changed, fmt.Sprintf("the file has %d bytes, it was written with %d", info.Size, h.Length)
	default:
		l.other = info.Version == "" || h.Tag != ""
		l.row.Written, l.row.Tag = info.ModTime.Truncate(time.Microsecond).UTC(), info.Version
		l.state = touched
		if isProven(h, info) {
			l.state = refresh
		}
	}
	if l.state == missing && len(h.Hashes) == 0 {
		l.state = right // it is going to be fetched again
	}
	return l, nil
}

// isProven reports whether a row without the file's time or tag can be completed
// without reading the file.
func isProven(h *journal.Held, info *blob.Info) bool {
	if info.Version != "" {
		return h.Tag == "" && IsMD5Of(info.Version, h.Hashes)
	}
	return h.Written.IsZero() && (h.Lastmod.IsZero() || info.ModTime.Truncate(time.Microsecond).Equal(h.Lastmod))
}

var plainTag = regexp.MustCompile(`^"?([0-9a-f]{32})"?$`)

// IsMD5Of reports whether an entity tag is the MD5 digest among hashes, as most
// services set it for objects uploaded in one piece.
func IsMD5Of(tag string, hashes resourcesync.Hashes) bool {
	m := plainTag.FindStringSubmatch(tag)
	digest := hashes.Get(resourcesync.MD5)
	return m != nil && digest != "" && fmt.Sprintf("%x", digest) == m[1]
}

// read compares the content of a file with the recorded hashes.
func (c *check) read(ctx context.Context, l *look) error {
	n, got, err := c.sums.Blob(ctx, c.m.Files, l.row.Path, content.Strongest(l.row.Hashes))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failure.IsUnreadable(err):
		return fmt.Errorf("read the files of the mirror%s: %w", c.m.In, err)
	case errors.Is(err, blob.ErrNotExist):
		l.state, l.cause = missing, "the file is gone"
	case err != nil:
		l.state, l.cause = changed, err.Error()
	case n != l.row.Length || content.Compare(l.row.Hashes, got) != content.Same:
		l.state, l.cause = changed, "the file has other content than was written"
	}
	return nil
}
