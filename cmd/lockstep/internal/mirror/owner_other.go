//go:build !unix

package mirror

// otherOwner returns -1: there is no root.
func otherOwner(string) int { return -1 }
