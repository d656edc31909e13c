//go:build race

package main

// raceDetector says that the program takes several times the memory and time.
const raceDetector = true
