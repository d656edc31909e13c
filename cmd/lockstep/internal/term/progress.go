package term

import (
	"sync"
	"time"
)

const (
	barInterval  = 100 * time.Millisecond // smooth for the eye, nothing for the machine
	lineInterval = 5 * time.Second        // few enough lines in a log file
)

// ShowProgress shows the result of describe on stderr until the caller calls
// stop: as a live bar on a terminal, as a line every few seconds otherwise, not
// at all if quiet. describe is called from another goroutine.
func ShowProgress(io IO, quiet bool, describe func() string) (stop func()) {
	return ShowFitting(io, quiet, func(int) string { return describe() })
}

// ShowFitting does so with a text that fits into the given number of columns; 0
// is any number.
func ShowFitting(io IO, quiet bool, describe func(columns int) string) (stop func()) {
	if quiet {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if io.screen.live() {
			liveBar(io.screen, done, describe)
		} else {
			lines(io.screen, done, describe)
		}
	})
	var once sync.Once
	return func() {
		once.Do(func() { close(done) })
		wg.Wait()
	}
}

// liveBar redraws the bar until done, then removes it.
func liveBar(s *screen, done <-chan struct{}, describe func(int) string) {
	defer s.show("")
	tick := time.NewTicker(barInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			s.show(describe(s.columns()))
		}
	}
}

// lines prints what has changed since the last line.
func lines(s *screen, done <-chan struct{}, describe func(int) string) {
	tick := time.NewTicker(lineInterval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if line := describe(0); line != "" && line != last {
				s.progress(line)
				last = line
			}
		}
	}
}
