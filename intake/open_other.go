//go:build !unix

package intake

// openFlags is empty where files cannot be pipes.
const openFlags = 0
