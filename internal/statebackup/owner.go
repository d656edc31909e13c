package statebackup

import (
	"archive/tar"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// An owner is the user and group that a state belongs to.
type owner struct{ uid, gid int }

// ownerOf returns the owner of a directory in an archive: by name, if this machine has users and
// groups of these names, or else by number.
func ownerOf(h *tar.Header) *owner {
	o := &owner{h.Uid, h.Gid}
	if u, err := user.Lookup(h.Uname); h.Uname != "" && err == nil {
		if uid, err := strconv.Atoi(u.Uid); err == nil {
			o.uid = uid
		}
	}
	if g, err := user.LookupGroup(h.Gname); h.Gname != "" && err == nil {
		if gid, err := strconv.Atoi(g.Gid); err == nil {
			o.gid = gid
		}
	}
	return o
}

// give makes what root has restored to dir belong to the owner; other users own what they create.
func (o *owner) give(dir string) error {
	if o == nil || os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, o.uid, o.gid)
	})
}
