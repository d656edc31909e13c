// Package dump reads the ZIP packages of Resource Dumps and Change Dumps and their
// manifests. An [Opener] reads a package by range requests if the server supports
// them, otherwise it fetches the whole package, and compares it with what its dump
// states.
package dump
