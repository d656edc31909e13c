// Package lock keeps a second process from writing to a mirror.
package lock
