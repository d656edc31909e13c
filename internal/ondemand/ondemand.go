// Package ondemand creates what is expensive to keep when it is used, and drops it when
// it has not been used for some time.
//
//	v := ondemand.New(time.Minute, create, drop)
//	t := v.Use()
//	defer v.Done()
package ondemand

import (
	"sync"
	"time"
)

// A Value is created on demand. It is safe for concurrent use.
type Value[T any] struct {
	create func() *T
	drop   func(*T)
	idle   time.Duration

	mu    sync.Mutex // guards the rest
	now   *T
	users int
	last  time.Time // when the last use ended
	timer bool      // one is running that calls rest
}

// New returns a Value that does not exist yet. It is dropped when it was not used for
// the time idle.
func New[T any](idle time.Duration, create func() *T, drop func(*T)) *Value[T] {
	return &Value[T]{idle: idle, create: create, drop: drop}
}

// Use returns the value, which is not dropped until Done is called.
func (v *Value[T]) Use() *T {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now == nil {
		v.now = v.create()
	}
	v.users++
	return v.now
}

// Done ends a use.
func (v *Value[T]) Done() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.users--
	v.last = time.Now()
	if !v.timer {
		v.timer = true
		time.AfterFunc(v.idle, v.rest)
	}
}

// Now returns the value if it exists; otherwise nil.
func (v *Value[T]) Now() *T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// rest drops the value, if it was not used for long enough, or tries again later.
func (v *Value[T]) rest() {
	v.mu.Lock()
	unused := time.Since(v.last)
	if v.users > 0 || unused < v.idle {
		time.AfterFunc(max(v.idle-unused, v.idle/4), v.rest)
		v.mu.Unlock()
		return
	}
	dropped := v.now
	v.now, v.timer = nil, false
	v.mu.Unlock()
	v.drop(dropped)
}
