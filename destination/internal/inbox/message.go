package inbox

import "time"

// A Message is what came on the channel of a set.
type Message struct {
	number  int64 // in the inbox; zero: it is not there
	Topic   string
	Body    []byte // nil: it is in the inbox
	Size    int64  // of the body
	At      time.Time
	EventID string // ID in the stream it came by
	Stream  string // address of that
	id      string // of the delivery
	Gap     bool   // the stream says that something is missing before it
	Hello   bool   // the stream begins here
}

// MessageBytes is what a message takes besides its body, about.
const MessageBytes = 256

// Weight returns how many bytes a message takes while it waits: without a body,
// too.
func (m *Message) Weight() int64 {
	return MessageBytes + max(m.Size, int64(cap(m.Body))) + int64(len(m.EventID))
}
