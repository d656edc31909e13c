package hub

import (
	"container/heap"
	"time"

	"lockstep/websub"
)

const fastPerHost = 64

// A host is where callbacks are: what shares connections.
type host struct {
	name  string
	subs  int // subscriptions with callbacks there
	alarm alarm
}

func newHost(name string) *host {
	x := &host{name: name}
	x.alarm.host, x.alarm.index = x, unset
	return x
}

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

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push implements heap.Interface.
func (a *alarms) Push(x any) {
	n := x.(*alarm)
	n.index = len(*a)
	*a = append(*a, n)
}

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	end := len(*a) - 1
	n := (*a)[end]
	(*a)[end] = nil
	*a, n.index = (*a)[:end], unset
	return n
}

// set sets n to ring at the time at.
func (a *alarms) set(n *alarm, at time.Time) {
	n.at = at
	if n.index == unset {
		heap.Push(a, n)
		return
	}
	heap.Fix(a, n.index)
}

func (a *alarms) clear(n *alarm) {
	if n.index != unset {
		heap.Remove(a, n.index)
	}
}

type signs struct{ signer *websub.Signer }

type window struct{}

func (h *Hub) join(row Subscription) { h.registry.put(row) }

func (h *Hub) accepted(m Message) {
	t := h.registry.topic(m.Topic)
	t.row, t.last = true, max(t.last, m.Seq)
	t.bytes += int64(len(m.Body))
}
