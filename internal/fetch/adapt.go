package fetch

import (
	"slices"
	"time"
)

// How the number of requests under way adapts to a host, where nobody fixed it.
const (
	// farAway is the time of the quickest answer from which a host counts as far:
	// what is spent on the way can be spent by many requests at once.
	farAway = 5 * time.Millisecond
	// surelyFar is the time of the quickest document from which that holds before
	// any other answer came: documents may take their time to be made.
	surelyFar = 20 * time.Millisecond
	// perSecond is how many answers a second the requests under way at a far
	// host are to suffice for; more of them would gain nothing.
	perSecond = 10_000
	// firstPerSecond is likewise for the first requests, by the documents that
	// were read before; at most nearMost.
	firstPerSecond = 1000
	// nearMost caps the requests under way at a host that is near, where more
	// gain little and a short run gains nothing: they grow by one for every
	// nearEvery answers, after nearAfter.
	nearMost  = 64
	nearAfter = 256
	nearEvery = 16

	// An answer is late that takes lateFactor/2 of what one takes usually, and
	// lateSlack more; but none is that comes within promptly.
	lateFactor = 3
	lateSlack  = 2 * time.Millisecond
	promptly   = 10 * time.Millisecond
	// bodyFactor is how often the time to the header a whole answer may take for
	// its host to get more requests. Beyond, it is not the way that takes the
	// time but the width of the line, which does not grow.
	bodyFactor = 4

	roundLeast  = DefaultJobs // answers in a round
	roundSample = 64          // of them whose times are kept

	// How many good answers make up for a failure: fewer failures than that are
	// chance, not strain.
	costBroken = 4  // a connection that broke
	costStatus = 8  // an answer of status 500 and above
	costAsked  = 16 // with a Retry-After

	creditLeast = 32 // what can be saved up, however few requests are under way
	creditFirst = 16 // what is given beforehand

	strainLeast  = 2                      // requests under way, whatever happens
	strainPause  = 250 * time.Millisecond // in which failures count as one, besides two round trips
	probeEvery   = 500 * time.Millisecond // at the edge of what the host can do; sooner after one that went well
	probeLeast   = 50 * time.Millisecond  // or two round trips
	probeAsked   = 5 * time.Second        // where the host said so itself
	probeDivisor = 4                      // how much more is tried then
)

// An adapter finds how many requests one host should have under way. Those
// under way divided by the time each takes are the answers a second: more
// under way pay as long as the time does not rise, for then it is spent on the
// way, and stop to pay when it rises as they do, for then it is spent waiting
// in line.
//
// So at a host far away their number grows by one with every answer that is
// not late, which doubles it in every round trip, until answers are late; then
// it falls back to what, by the same rule, makes them come in time, and only
// now and then a few more are tried. Where having fewer does not make them
// faster, the host, or this machine, is busy with something else. At a host that
// is near, as the quickest answer shows however late the others are, it grows
// slowly and not far. Failures halve it, unless they are few among many answers; a
// host that says it is too much, or falls silent, is believed at once.
//
// What an answer usually takes is the median of the first round, and follows
// when the host is faster; and when it is slower though it has little to do.
//
// It is not safe for concurrent use: the slots have it.
type adapter struct {
	jobs int // may be under way
	most int // 0: jobs is fixed

	least   time.Duration // time of the quickest answer: what the way takes, at most; 0 if not known
	usual   time.Duration // time of an answer; 0 if not known
	settled bool          // by a whole round; until then it is the least seen
	edge    int           // more than that strained the host, or came late; 0: not known
	probe   time.Time     // when to go beyond the edge
	pause   time.Duration // from then to the next time
	strain  time.Time     // the last
	good    int           // answers since
	credit  int           // of good answers, against failures

	before judgement // the last, if it made jobs smaller
	ignore int       // answers still to come to what was asked before it, by which its median is mended

	round  int // answers in it
	target int // that end it
	times  []time.Duration
}

// A reply is how a request was answered.
type reply struct {
	good   bool          // usably
	alive  bool          // not by a failure that may pass
	major  int           // version of HTTP
	reused bool          // over a connection that was there
	wait   time.Duration // for the header, from when there was a connection
	whole  time.Duration // to the end of the body
}

// answered notes a good answer. busy says that all that may be under way were.
func (a *adapter) answered(now time.Time, r *reply, busy, doc bool) {
	a.credit = min(a.credit+1, max(2*a.jobs, creditLeast))
	if r.reused && !a.settled && (a.usual == 0 || r.wait < a.usual) {
		a.usual = r.wait
	}
	if doc { // made on demand, perhaps: no measure for the rest, but for where to begin
		if a.most > 0 && a.good == 0 && a.strain.IsZero() && a.usual >= surelyFar {
			a.jobs = min(max(int(a.usual.Seconds()*firstPerSecond), DefaultJobs), nearMost, a.most)
		}
		return
	}
	a.good++
	if a.least == 0 || r.wait < a.least {
		a.least = r.wait
	}
	if r.reused && len(a.times) < roundSample {
		a.times = append(a.times, r.wait)
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

// grow lets more be under way, if that pays.
func (a *adapter) grow(now time.Time, r *reply) {
	limit, more := nearMost, 0
	if a.least < farAway { // if others take longer, it is not the way that takes the time
		if a.jobs < DefaultJobs || a.good >= nearAfter && a.good%nearEvery == 0 {
			more = 1
		}
	} else {
		limit = max(int(a.usual.Seconds()*perSecond), nearMost)
		late := a.late()
		if !r.reused {
			late += a.usual // for what a server does with a new connection
		}
		if r.wait <= late && r.whole <= bodyFactor*max(r.wait, a.usual) {
			more = 1
		}
	}
	if limit = min(limit, a.most); more == 0 || a.jobs >= limit {
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

// late is the time beyond which an answer is.
func (a *adapter) late() time.Duration {
	return max(a.usual*lateFactor/2+lateSlack, promptly)
}

// judge ends a round.
func (a *adapter) judge(now time.Time) {
	a.round = 0
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
	case a.most == 0 || a.jobs <= DefaultJobs:
		a.usual += (median - a.usual) / 8
	case a.before.inVain(a.jobs, median):
		a.usual += (median - a.usual) / 2
		a.jobs, a.before = a.before.jobs, judgement{}
	default:
		a.before = judgement{a.jobs, median}
		a.ignore = a.jobs // they were sent before, and waited behind each other
		fit := int(float64(a.jobs) * float64(a.usual) / float64(median))
		a.jobs = max(fit, a.jobs/2, DefaultJobs)
		a.edge, a.pause = a.jobs, probeEvery
		a.probe = now.Add(a.pause)
	}
}

// median returns the median of the times, and forgets them.
func (a *adapter) median() time.Duration {
	slices.Sort(a.times)
	m := a.times[len(a.times)/2]
	a.times = a.times[:0]
	return m
}

// A judgement is what was found when the number was made smaller.
type judgement struct {
	jobs   int
	median time.Duration
}

// inVain reports whether answers got faster by it by less than a quarter of what
// they should: then it is not for us that they are slow.
func (j *judgement) inVain(jobs int, median time.Duration) bool {
	if j.jobs == 0 {
		return false
	}
	hoped := time.Duration(float64(j.median) * float64(jobs) / float64(j.jobs))
	return median > (hoped+3*j.median)/4
}

// failed notes a failure of the host, or on the way to it, that costs so much
// credit; and at once, whatever the credit, where the host said that it is
// asked too much, or fell silent. It reports whether the host is strained.
func (a *adapter) failed(now time.Time, cost int, asked bool) bool {
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

// well reports whether failures are few among the answers.
func (a *adapter) well() bool { return a.credit >= costStatus }
