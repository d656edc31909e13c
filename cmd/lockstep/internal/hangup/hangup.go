// Package hangup receives SIGHUP, by which a service is asked to read its configuration
// again and to open its log file again.
package hangup

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals are the SIGHUP signals to the process, from Receive on: serve may be asked to
// read its configuration file again before it knows that it has one.
type Signals chan os.Signal

// Receive has SIGHUP not end the process until Release is called.
func Receive() Signals {
	s := make(Signals, 1) // one that comes meanwhile is about the same file
	signal.Notify(s, syscall.SIGHUP)
	return s
}

// Release has SIGHUP end the process, as usual, also if it has been sent already.
func (s Signals) Release() {
	signal.Stop(s)
	select {
	case <-s:
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(syscall.SIGHUP) // where there is no such signal, none was received
		}
	default:
	}
}

// Each calls f after each SIGHUP until stop is called.
func Each(f func()) (stop func()) {
	s, done := Receive(), make(chan struct{})
	go func() {
		for {
			select {
			case <-s:
				f()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(s); close(done) }
}
