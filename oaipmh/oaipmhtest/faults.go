package oaipmhtest

import (
	"net/http"
	"strconv"

	"lockstep/oaipmh"
)

// Faults says how a Repository fails. Shares are from 0 to 1 of all responses and
// follow from Seed in the order in which requests come in.
type Faults struct {
	Seed uint64

	Unavailable float64 // 503 with Retry-After
	RetryAfter  int     // seconds it says
	Reset       float64 // the connection is reset before an answer
	Cut         float64 // the answer ends early, with the connection
	HTML        float64 // 200 with an HTML page
	Expire      float64 // a resumption token is refused: badResumptionToken

	RepeatToken bool // the token for the next page is the one that was sent
	NoCounts    bool // tokens state no completeListSize and cursor
	WrongCounts bool // they state wrong ones
	CoarseOnly  bool // datestamps with a time are refused as arguments, whatever Identify says
	EmptyMatch  bool // an empty list instead of noRecordsMatch
	LastToken   bool // the last page of every list has an empty token, one page or more
	ErrorStatus int  // HTTP status of answers that are OAI-PMH errors; default 200
}

// fate is what becomes of a response.
type fate uint8

const (
	fine fate = iota
	unavailable
	reset
	cut
	html
)

// fate draws what becomes of the next response, and whether its token is refused.
// The lock is held.
func (r *Repository) fate() (f fate, expired bool) {
	x := r.random.Float64()
	expired = r.random.Float64() < r.faults.Expire
	for i, share := range []float64{r.faults.Unavailable, r.faults.Reset, r.faults.Cut, r.faults.HTML} {
		if x < share {
			return unavailable + fate(i), expired
		}
		x -= share
	}
	return fine, expired
}

// befall lets a fault befall a request, and reports whether that answers it.
func (f *Faults) befall(w http.ResponseWriter, what fate) bool {
	switch what {
	case unavailable:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case reset:
		panic(http.ErrAbortHandler)
	case html:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>Down for maintenance</body></html>")) // who does not read it need not
	default:
		return false
	}
	return true
}

// status is the HTTP status of an answer with these errors.
func (f *Faults) status(errs []*oaipmh.Error) int {
	if len(errs) > 0 && f.ErrorStatus != 0 {
		return f.ErrorStatus
	}
	return http.StatusOK
}
