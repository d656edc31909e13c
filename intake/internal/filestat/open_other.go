//go:build !unix

package filestat

// OpenFlags is empty where opening never blocks.
const OpenFlags = 0
