package bulk

import (
	"context"
	"fmt"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
	"lockstep/resourcesync"
)

// compareManifest compares the manifest in the package with the one that its
// entries were read from. If they differ, the one in the package takes precedence
// for the paths of members (RS-ZIP-10).
func (u *unpacking) compareManifest(ctx context.Context, file dump.File, dir *unpack.Directory) {
	member, folder := dir.Manifest()
	if folder != "" {
		u.warn(u.job.URI, fmt.Sprintf("package %s: its manifest is in the folder %s", fetch.Printable(u.job.URI), fetch.Printable(dump.Clip(folder))))
	}
	if c := u.job.Copy; c == (dump.Copy{}) || member == nil || member.Refused() != "" || member.Size == c.Size && member.CRC == c.CRC {
		return
	}
	u.warn(u.job.URI, fmt.Sprintf("package %s: its manifest is not the one beside it; the one inside counts", fetch.Printable(u.job.URI)))
	m, err := dump.EnterManifest(ctx, u.job.URI, file, dir)
	if err != nil {
		u.warn(u.job.URI, fmt.Sprintf("package %s: manifest: %v", fetch.Printable(u.job.URI), err))
		return
	}
	defer m.Close()
	wanted := map[string][]*plan.Action{}
	for _, a := range u.left {
		wanted[a.URI] = append(wanted[a.URI], a)
	}
	u.paths = map[*plan.Action]string{}
	for e, err := range m.Entries() {
		if err != nil {
			u.warn(u.job.URI, err.Error())
			return
		}
		for _, a := range wanted[e.Loc] {
			u.place(a, &e)
		}
	}
}

// warnExtra warns of files that no manifest names, which are ignored (RS-ZIP-08).
func (u *unpacking) warnExtra(dir *unpack.Directory) {
	if u.job.Members == 0 {
		return
	}
	n := 0
	for i := range dir.Members {
		if !dir.Members[i].IsDir() {
			n++
		}
	}
	if m, _ := dir.Manifest(); m != nil {
		n--
	}
	if n -= u.job.Members; n > 0 {
		u.warn(u.job.URI, fmt.Sprintf("package %s: %d files in it that its manifest does not name are ignored", fetch.Printable(u.job.URI), n))
	}
}

// place records the path at which an entry of the manifest has the content for a,
// unless it is the path in a, or an earlier entry fits better.
func (u *unpacking) place(a *plan.Action, e *resourcesync.Entry) {
	if e.Path == "" {
		return
	}
	p := desired.Resource{Hashes: e.Hashes, Lastmod: e.Lastmod, Length: -1}
	if e.HasLength {
		p.Length = e.Length
	}
	if _, ok := u.paths[a]; !ok || e.Path == a.Member.Path || desired.SameRepresentation(&p, &a.Resource) {
		u.paths[a] = e.Path
	}
}

// path returns the path of a's content in the package.
func (u *unpacking) path(a *plan.Action) string {
	if path, ok := u.paths[a]; ok {
		return path
	}
	return a.Member.Path
}
