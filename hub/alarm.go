package hub

import (
	"container/heap"
	"time"
)

const unset = -1 // index of an alarm that is not set

// An alarm is a time at which something is to be done for a subscription or a
// host.
type alarm struct {
	at    time.Time
	index int // in alarms
	sub   *subscription
	host  *host
}

// alarms are those that are set, the first in front.
type alarms []*alarm

// set sets n to ring at the time at, instead of the one it was set to.
func (a *alarms) set(n *alarm, at time.Time) {
	n.at = at
	if n.index == unset {
		heap.Push(a, n)
		return
	}
	heap.Fix(a, n.index)
}

// clear sees to it that n does not ring.
func (a *alarms) clear(n *alarm) {
	if n.index != unset {
		heap.Remove(a, n.index)
	}
}

// due returns the next alarm whose time has come, not set any more; or nil.
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
