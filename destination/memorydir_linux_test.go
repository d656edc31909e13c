package destination_test

import "syscall"

// memoryRoom is several times what the tests need at once.
const memoryRoom = 512 << 20

// memoryDir returns a directory in memory with room for temporary files; "" if
// there is none.
func memoryDir() string {
	const dir = "/dev/shm"
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || int64(st.Bavail)*st.Bsize < memoryRoom {
		return ""
	}
	return dir
}
