// Package dump reads the ZIP packages of Resource Dumps and Change Dumps and
// their manifests. An [Opener] reads a package by range requests where the
// server allows it, else it fetches the package whole, and compares it with what
// its dump states.
package dump
