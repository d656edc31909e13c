package oaipmhtest

import (
	"net/http"
	"strconv"

	"lockstep/oaipmh"
)

// Faults describes the failures of a Repository. Shares are from 0 to 1 of all
// responses; Seed determines which responses fail, in the order of requests.
type Faults struct {
	Seed uint64

	Unavailable float64 // 503 with Retry-After
	RetryAfter  int     // seconds in that header
	Reset       float64 // the connection is reset before a response
	Cut         float64 // the response and the connection end early
	HTML        float64 // 200 with an HTML page
	Expire      float64 // a resumption token is refused: badResumptionToken

	RepeatToken bool // the token for the next page is the one that was sent
	NoCounts    bool // tokens have no completeListSize and cursor
	WrongCounts bool // they have wrong ones
	CoarseOnly  bool // datestamps with a time are refused as arguments, whatever Identify says
	EmptyMatch  bool // an empty list instead of noRecordsMatch
	LastToken   bool // the last page of every list has an empty token, even if there is only one page
	ErrorStatus int  // HTTP status of answers that are OAI-PMH errors; default 200
}

// fate is the kind of a response.
type fate uint8

const (
	fine fate = iota
	unavailable
	reset
	cut
	html
)

// fate draws the kind of the next response, and whether its token is refused. The
// caller holds the lock.
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

// befall applies a fault to a request, and reports whether that answers it.
func (f *Faults) befall(w http.ResponseWriter, what fate) bool {
	switch what {
	case unavailable:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case reset:
		panic(http.ErrAbortHandler)
	case html:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>Down for maintenance</body></html>")) // the client may have disconnected
	default:
		return false
	}
	return true
}

// status returns the HTTP status of a response with these errors.
func (f *Faults) status(errs []*oaipmh.Error) int {
	if len(errs) > 0 && f.ErrorStatus != 0 {
		return f.ErrorStatus
	}
	return http.StatusOK
}
