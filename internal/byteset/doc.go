// Package byteset finds the first byte of a set in a text, 32 bytes at a time where
// the processor has AVX2.
package byteset
