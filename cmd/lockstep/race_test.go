//go:build race

package main

// raceDetector says that the program takes several times its memory.
const raceDetector = true
