// Package concurrency determines how many requests a host should get at a time, from the
// times of its answers and from its failures.
package concurrency

import (
	"slices"
	"time"
)

// Initial is how many requests a host gets at first.
const Initial = 16

// How many good answers compensate for a failure: fewer failures than that are chance,
// not overload.
const (
	CostBroken = 4  // a connection that broke
	CostStatus = 8  // an answer of status 500 and above
	CostAsked  = 16 // with a Retry-After
)

// How the number of concurrent requests adapts to a host, unless it is fixed.
const (
	// farAway is the time of the quickest answer from which a host counts as far:
	// many requests at once can share the latency.
	farAway = 5 * time.Millisecond
	// surelyFar is the time of the quickest document from which a host counts as
	// far before any other answer arrived: generating documents takes time.
	surelyFar = 20 * time.Millisecond
	// perSecond is the rate of answers for which the number of requests to a far
	// host must suffice; more requests would gain nothing.
	perSecond = 10_000
	// While requests share connections, as many as sharedMore of those that the two
	// limits above and the configured one allow may be under way: they need no more
	// connections.
	sharedMore = 1.5
	// firstPerSecond is the same for the first requests, estimated from the documents
	// read before; at most firstMost. A host that takes longer than slowDocument for a
	// document may be far, or busy generating it: at most nearMost are sent to it.
	firstPerSecond = 2500
	firstMost      = 128
	slowDocument   = 100 * time.Millisecond
	// nearMost caps the concurrent requests to a near host, where more gain little
	// and a short run gains nothing: their number grows by one for every nearEvery
	// answers, after nearAfter.
	nearMost  = 64
	nearAfter = 256
	nearEvery = 16

	// An answer is late if it takes lateFactor/2 of the usual time, plus lateSlack;
	// but none that arrives within promptly is.
	lateFactor = 3
	lateSlack  = 2 * time.Millisecond
	promptly   = 10 * time.Millisecond
	// bodyFactor is the maximum ratio of the time of a whole answer to that of its
	// header for which a host gets more requests. Above it bandwidth is the limit,
	// not latency, and more requests do not help.
	bodyFactor = 4

	roundLeast  = Initial // answers in a round
	roundSample = 64      // of them whose times are stored

	creditLeast = 32 // maximum credit, however few requests are under way
	creditFirst = 16 // initial credit

	strainLeast  = 2                      // minimum number of requests
	strainPause  = 250 * time.Millisecond // in which several failures count as one, besides two round trips
	probeEvery   = 500 * time.Millisecond // interval of probes at the edge of the host's capacity; sooner after a successful one
	probeLeast   = 50 * time.Millisecond  // or two round trips
	probeAsked   = 5 * time.Second        // if the host itself reported overload
	probeDivisor = 4                      // 1/probeDivisor more requests are tried then
)

// An Adapter determines how many concurrent requests a host should get. That
// number divided by the time of an answer is the rate of answers: more requests
// pay as long as the time does not rise, because it is latency then, and no longer
// pay when the time rises with them, because they are waiting in a queue.
//
// For a far host the number therefore grows by one with every answer that is not
// late, which doubles it in every round trip, until answers are late. Then it
// falls back to the number that, by the same rule, gets answers in time, and from
// time to time a few more are tried. If fewer requests do not make answers faster,
// the host, or this machine, is busy with other work. For a near host, as shown by
// its quickest answer, the number grows slowly and not far. Failures halve it,
// unless there are few among many answers; an explicit overload response, or
// silence, takes effect at once.
//
// The usual time of an answer is the median of the first round. It decreases when
// the host becomes faster, and increases when the host becomes slower though it
// has little to do.
//
// It is not safe for concurrent use.
type Adapter struct {
	jobs int // allowed number of requests
	most int // 0: jobs is fixed

	shared  bool // requests share connections: they did in the last round, or do in this one
	sharing bool // in this one

	least   time.Duration // time of the quickest answer, an upper bound of the latency; 0 if unknown
	usual   time.Duration // time of an answer; 0 if unknown
	settled bool          // usual is from a whole round; before, it is the shortest time seen
	edge    int           // more requests than that overloaded the host, or were late; 0: unknown
	probe   time.Time     // when to exceed the edge
	pause   time.Duration // from then to the next probe
	strain  time.Time     // time of the last failure
	good    int           // answers since
	credit  int           // from good answers, used up by failures

	before judgement // the last judgement that reduced jobs
	ignore int       // answers still expected to requests sent before it, which correct its median

	round  int // answers in it
	target int // number that ends it
	times  []time.Duration
}

// New returns an Adapter that allows that many requests at first, and up to most; 0: their
// number is fixed.
func New(jobs, most int) Adapter { return Adapter{jobs: jobs, most: most} }

// Jobs returns how many requests are allowed.
func (a *Adapter) Jobs() int { return a.jobs }

// Near reports whether the host has answered so quickly that latency does not matter.
func (a *Adapter) Near() bool { return a.least > 0 && a.least < farAway }

// Usual returns the time of an answer, if answers for a whole round have shown it.
func (a *Adapter) Usual() (time.Duration, bool) { return a.usual, a.settled }

// A Reply describes a good answer.
type Reply struct {
	Reused bool          // over an existing connection
	Shared bool          // other requests were under way on it
	Wait   time.Duration // for the header, from when there was a connection
	Whole  time.Duration // to the end of the body
}

// Answered records a good answer; doc says that it is a document. busy means that all allowed requests were
// under way.
func (a *Adapter) Answered(now time.Time, r *Reply, busy, doc bool) {
	a.credit = min(a.credit+1, max(2*a.jobs, creditLeast))
	if r.Reused && !a.settled && (a.usual == 0 || r.Wait < a.usual) {
		a.usual = r.Wait
	}
	if doc { // perhaps generated on demand: only used to choose the initial number
		if a.most > 0 && a.good == 0 && a.strain.IsZero() && a.usual >= surelyFar {
			most := firstMost
			if a.usual > slowDocument {
				most = nearMost
			}
			a.jobs = min(max(int(a.usual.Seconds()*firstPerSecond), Initial), most, a.most)
		}
		return
	}
	a.good++
	a.sharing = a.sharing || r.Shared
	a.shared = a.shared || r.Shared
	if a.least == 0 || r.Wait < a.least {
		a.least = r.Wait
	}
	if r.Reused && len(a.times) < roundSample {
		a.times = append(a.times, r.Wait)
	}
	if a.ignore > 0 {
		if a.ignore--; a.ignore == 0 && len(a.times) > 0 {
			a.before.median = max(a.before.median, a.median())
		}
		return
	}
	if busy && a.most > 0 {
		a.grow(now, r)
	}
	if a.round == 0 {
		a.target = max(a.jobs, roundLeast)
	}
	if a.round++; a.round >= a.target {
		a.judge(now)
	}
}

// grow increases the number of requests, if that pays.
func (a *Adapter) grow(now time.Time, r *Reply) {
	limit, more := nearMost, 0
	if a.least < farAway { // if other answers take longer, latency is not the reason
		if a.jobs < Initial || a.good >= nearAfter && a.good%nearEvery == 0 {
			more = 1
		}
	} else {
		limit = max(int(a.usual.Seconds()*perSecond), nearMost)
		late := a.late()
		if !r.Reused {
			late += a.usual // for the server's work on a new connection
		}
		if r.Wait <= late && r.Whole <= bodyFactor*max(r.Wait, a.usual) {
			more = 1
		}
	}
	most := a.most
	if a.shared && a.least >= farAway {
		limit, most = int(sharedMore*float64(limit)), int(sharedMore*float64(most))
	}
	if limit = min(limit, most); more == 0 || a.jobs >= limit {
		return
	}
	if a.edge > 0 && a.jobs >= a.edge {
		if now.Before(a.probe) {
			return
		}
		more = max(a.jobs/probeDivisor, 1)
		a.pause = max(a.pause/2, probeLeast, 2*a.usual)
		a.edge, a.probe = a.jobs+more, now.Add(a.pause)
	}
	a.jobs = min(a.jobs+more, limit)
}

// late returns the time beyond which an answer is late.
func (a *Adapter) late() time.Duration {
	return max(a.usual*lateFactor/2+lateSlack, promptly)
}

// judge ends a round.
func (a *Adapter) judge(now time.Time) {
	a.round = 0
	if a.shared, a.sharing = a.sharing, false; !a.shared && a.most > 0 {
		a.jobs = min(a.jobs, a.most)
	}
	if len(a.times) == 0 {
		return
	}
	median := a.median()
	switch {
	case !a.settled:
		a.settled, a.usual = true, max(median, a.usual)
	case median <= a.late():
		a.before = judgement{}
		a.usual -= max(a.usual-median, 0) / 4
	case a.most == 0 || a.jobs <= Initial:
		a.usual += (median - a.usual) / 8
	case a.before.ineffective(a.jobs, median):
		a.usual += (median - a.usual) / 2
		a.jobs, a.before = a.before.jobs, judgement{}
	default:
		a.before = judgement{a.jobs, median}
		a.ignore = a.jobs // they were sent before, and waited behind each other
		fit := int(float64(a.jobs) * float64(a.usual) / float64(median))
		a.jobs = max(fit, a.jobs/2, Initial)
		a.edge, a.pause = a.jobs, probeEvery
		a.probe = now.Add(a.pause)
	}
}

// median returns the median of the times, and clears them.
func (a *Adapter) median() time.Duration {
	slices.Sort(a.times)
	m := a.times[len(a.times)/2]
	a.times = a.times[:0]
	return m
}

// A judgement records the state when the number of requests was reduced.
type judgement struct {
	jobs   int
	median time.Duration
}

// ineffective reports whether the reduction made answers faster by less than a
// quarter of the expected amount: then these requests are not the reason that
// they are slow.
func (j *judgement) ineffective(jobs int, median time.Duration) bool {
	if j.jobs == 0 {
		return false
	}
	hoped := time.Duration(float64(j.median) * float64(jobs) / float64(j.jobs))
	return median > (hoped+3*j.median)/4
}

// Failed records a failure of the host or the connection, with its cost in
// credit. It takes effect at once, whatever the credit, if the host reported
// overload or fell silent. It reports whether the host is overloaded.
func (a *Adapter) Failed(now time.Time, cost int, asked bool) bool {
	if a.credit -= cost; a.credit >= -creditFirst && !asked {
		return false
	}
	a.credit, a.pause = -creditFirst, probeEvery
	if asked {
		a.pause = probeAsked
	}
	if next := now.Add(a.pause); next.After(a.probe) {
		a.probe = next
	}
	if a.most == 0 || now.Sub(a.strain) < strainPause+2*a.usual {
		return true
	}
	a.strain, a.good = now, 0
	a.jobs, a.before, a.ignore = max(a.jobs/2, strainLeast), judgement{}, 0
	a.edge = a.jobs
	return true
}

// Well reports whether there are few failures among the answers.
func (a *Adapter) Well() bool { return a.credit >= CostStatus }
