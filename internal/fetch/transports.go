package fetch

import (
	"net/http"
	"slices"

	"lockstep/internal/fetch/http1"
)

// transports have the connections of a Client. After many requests an http.Transport
// keeps some 70 kB, among them the requests for which it has opened connections, and the
// next ones, of a Client that polls, may be few and late: so a Client has transports only
// while it sends requests. The body of an answer may be read later: a transport that
// was dropped closes the connection at its end.
type transports struct {
	lanes   [maxLanes]*http.Transport // the last is for documents
	streams [maxLanes]*http.Transport // the same for hosts that support HTTP/2
	sends   *http.Transport           // for Do
	simple  *http1.Pool               // for plain GET requests; nil: not used
	single  *http.Transport           // for those whose responses http1 does not interpret: each on its own connection
}

// of returns the transport of a lane.
func (ts *transports) of(l lane) *http.Transport {
	if l == laneSingle {
		return ts.single
	}
	if l&laneStreams != 0 {
		return ts.streams[l&^laneStreams]
	}
	return ts.lanes[l]
}

// closeIdle closes idle connections.
func (ts *transports) closeIdle() {
	for _, t := range append(slices.Concat(ts.lanes[:], ts.streams[:]), ts.sends) {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
	if ts.simple != nil {
		ts.simple.Close()
	}
}
