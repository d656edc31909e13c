package oaipmhtest

// Faults says how a Repository fails. Shares are from 0 to 1 of all responses and
// follow from Seed in the order in which requests come in.
type Faults struct {
	Seed uint64

	Unavailable float64 // 503 with Retry-After: RetryAfter
	RetryAfter  int     // seconds
	Reset       float64 // the connection is reset before an answer
	Cut         float64 // the answer ends early, with the connection
	HTML        float64 // 200 with an HTML page
	Expire      float64 // a resumption token is refused: badResumptionToken
	Controls    bool    // metadata holds characters XML forbids, bare ampersands, bytes that are no UTF-8

	RepeatToken bool // the next page's token is the one that was sent
	NoCounts    bool // tokens state no completeListSize and cursor
	WrongCounts bool // they state wrong ones
	CoarseOnly  bool // says seconds, but refuses arguments that have them
	EmptyMatch  bool // an empty list instead of noRecordsMatch
	ErrorStatus int  // HTTP status of answers that are OAI-PMH errors; default 200
}
