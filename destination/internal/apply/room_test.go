package apply

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"lockstep/destination/internal/transfer"
)

// A heldTransfer is a transfer that ends when the test says how.
type heldTransfer struct {
	began  chan struct{}
	end    chan transfer.Outcome
	result chan transfer.Outcome
}

func hold(r *room) *heldTransfer {
	h := &heldTransfer{make(chan struct{}), make(chan transfer.Outcome), make(chan transfer.Outcome, 1)}
	go func() {
		h.result <- r.transfer(func() transfer.Outcome { close(h.began); return <-h.end })
	}()
	return h
}

func (h *heldTransfer) endWith(o transfer.Outcome) transfer.Outcome {
	h.end <- o
	return <-h.result
}

// TestRoom has a transfer find no space beside another one: what follows waits for that
// one, and runs alone until there is space again.
func TestRoom(t *testing.T) {
	t.Parallel()
	const shortly = 20 * time.Millisecond
	var r room
	full := transfer.Outcome{Err: syscall.ENOSPC}
	large, small := hold(&r), hold(&r)
	<-large.began
	<-small.began
	if o := small.endWith(full); !o.Crowded {
		t.Error("the other transfer is not seen")
	}
	if member := full; !r.isCrowded(&member) || r.isCrowded(&transfer.Outcome{Err: errors.New("another")}) {
		t.Error("a member of a package is judged differently")
	}
	a, b := hold(&r), hold(&r)
	select {
	case <-a.began:
		t.Error("one runs beside the transfer that may take the space")
	case <-b.began:
		t.Error("one runs beside the transfer that may take the space")
	case <-time.After(shortly):
	}
	if o := large.endWith(full); !o.Crowded {
		t.Error("the large one was not alone, either")
	}
	select {
	case <-a.began:
	case <-b.began:
		a, b = b, a
	}
	select {
	case <-b.began:
		t.Error("two run side by side, and there is no space")
	case <-time.After(shortly):
	}
	if o := a.endWith(full); o.Crowded {
		t.Error("what was alone counts as crowded")
	}
	<-b.began
	if o := b.endWith(transfer.Outcome{}); o.Err != nil {
		t.Error(o.Err)
	}
	if r.isCrowded(&full) {
		t.Error("nothing is under way, and it counts as crowded")
	}
	a, b = hold(&r), hold(&r)
	<-a.began
	<-b.began // side by side
	a.endWith(transfer.Outcome{})
	b.endWith(transfer.Outcome{})
}
