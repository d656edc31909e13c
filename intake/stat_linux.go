package intake

import (
	"io/fs"
	"syscall"
	"time"
)

// addSys adds what only the system's own stat tells.
func (s *fileStat) addSys(fi fs.FileInfo) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.ctime = nanos(time.Unix(st.Ctim.Unix()))
		s.dev, s.ino = uint64(st.Dev), st.Ino
		s.shared = st.Nlink > 1
	}
}
