package delivery

import (
	"container/heap"
	"time"
)

const unset = -1 // index of an alarm that is not set

// An alarm is the time of the next action for a subscription or a host.
type alarm struct {
	at    time.Time
	index int // in alarms
	sub   *subscription
	host  *host
}

// An alarmClock has all alarms that are set. The lock of the registry guards it.
type alarmClock struct {
	alarms alarms
	poked  chan struct{} // there is a new alarm or delivery to wait for
}

func newAlarmClock() *alarmClock { return &alarmClock{poked: make(chan struct{}, 1)} }

// ring sets an alarm.
func (c *alarmClock) ring(n *alarm, at time.Time) {
	c.alarms.set(n, at)
	if n.index == 0 {
		c.poke()
	}
}

// poke makes the watcher check what it waits for.
func (c *alarmClock) poke() { wake(c.poked) }

// clear removes an alarm, so that it does not ring.
func (c *alarmClock) clear(n *alarm) { c.alarms.clear(n) }

// due removes and returns the next alarm whose time has come, or nil.
func (c *alarmClock) due(now time.Time) *alarm { return c.alarms.due(now) }

// wait returns the time until the next alarm, at most most.
func (c *alarmClock) wait(now time.Time, most time.Duration) time.Duration {
	if len(c.alarms) == 0 {
		return most
	}
	return min(most, c.alarms[0].at.Sub(now))
}

// alarms is a heap of the alarms that are set, the earliest first.
type alarms []*alarm

// set makes n ring at the time at, in place of any earlier setting.
func (a *alarms) set(n *alarm, at time.Time) {
	n.at = at
	if n.index == unset {
		heap.Push(a, n)
		return
	}
	heap.Fix(a, n.index)
}

// clear removes n, so that it does not ring.
func (a *alarms) clear(n *alarm) {
	if n.index != unset {
		heap.Remove(a, n.index)
	}
}

// due removes and returns the next alarm whose time has come, or nil.
func (a *alarms) due(now time.Time) *alarm {
	if len(*a) == 0 || now.Before((*a)[0].at) {
		return nil
	}
	return heap.Pop(a).(*alarm)
}

// Len implements heap.Interface, as do the methods below.
func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

func (a *alarms) Push(x any) {
	n := x.(*alarm)
	n.index = len(*a)
	*a = append(*a, n)
}

func (a *alarms) Pop() any {
	end := len(*a) - 1
	n := (*a)[end]
	(*a)[end] = nil
	*a, n.index = (*a)[:end], unset
	return n
}
