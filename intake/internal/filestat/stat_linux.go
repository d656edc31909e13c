package filestat

import (
	"io/fs"
	"syscall"
	"time"
)

// addSys adds the fields that only the system's own stat call returns.
func (s *Stat) addSys(fi fs.FileInfo) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.Ctime = Nanos(time.Unix(st.Ctim.Unix()))
		s.Dev, s.Ino = uint64(st.Dev), st.Ino
		s.Shared = st.Nlink > 1
	}
}
