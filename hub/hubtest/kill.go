package hubtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"lockstep/hub/hubstore"
)

// killTopics are the topics to which every Append of a [Victim] adds the same
// number of messages.
var killTopics = []string{"https://example.org/kill/1", "https://example.org/kill/2", "https://example.org/kill/3"}

// killSubscriptions is the number of subscriptions that have the same cursor after
// every Save of a Victim.
const killSubscriptions = 30

// Victim writes to s until it is killed, and reports completed writes on w. It
// returns the error that stopped it.
func Victim(ctx context.Context, s hubstore.Store, w io.Writer) error {
	body := make([]byte, 3000)
	var put hubstore.Changes
	for i := range killSubscriptions {
		put.Put = append(put.Put, bare(fmt.Sprint("https://example.org/", i)))
	}
	if err := s.Save(ctx, put); err != nil {
		return err
	}
	for cursor := int64(1); ; cursor++ {
		var group []hubstore.Message
		for range 1 + rand.IntN(20) {
			for _, topic := range killTopics {
				group = append(group, hubstore.Message{Topic: topic, Body: body[:rand.IntN(len(body))]})
			}
		}
		seqs, err := s.Append(ctx, group)
		if err != nil {
			return err
		}
		c := hubstore.Changes{Progress: make(map[hubstore.Key]hubstore.Progress)}
		for _, sub := range put.Put {
			c.Progress[sub.Key] = hubstore.Progress{Cursor: cursor}
		}
		if err := s.Save(ctx, c); err != nil {
			return err
		}
		fmt.Fprintln(w, slices.Max(seqs), cursor)
		if cursor%5 == 0 {
			if err := s.Trim(ctx, killTopics[rand.IntN(3)], slices.Max(seqs)-30); err != nil {
				return err
			}
		}
	}
}

// RunKill starts the command, which runs a [Victim] on a store, and kills it,
// repeatedly. Every reported write must be in the store, and none partially.
// Open opens the store, shut closes it.
func RunKill(t *testing.T, rounds int, command func() *exec.Cmd, open func() hubstore.Store, shut func()) {
	for range rounds {
		seq, cursor := kill(t, command())
		s := open()
		last := int64(-1)
		for _, topic := range topics(t, s) {
			if last >= 0 && topic.Last != last {
				t.Errorf("a topic has %d messages, another %d: an Append is there by half", topic.Last, last)
			}
			last = topic.Last
			next, size := topic.First, int64(0)
			for _, m := range collect(t, s.Log(t.Context(), topic.URL, 0)) {
				if m.Seq != next {
					t.Fatalf("message %d, want %d", m.Seq, next)
				}
				next, size = next+1, size+int64(len(m.Body))
			}
			if next != topic.Last+1 || size != topic.Bytes {
				t.Errorf("the log ends before %d and has %d bytes, want %+v", next, size, topic)
			}
		}
		if last < seq {
			t.Errorf("the last message is %d after %d was reported", last, seq)
		}
		subs := subscriptions(t, s, -1)
		if len(subs) != killSubscriptions {
			t.Fatalf("%d subscriptions, want %d", len(subs), killSubscriptions)
		}
		for _, sub := range subs {
			if c := sub.Progress.Cursor; c < cursor || c != subs[0].Progress.Cursor {
				t.Errorf("cursor %d beside %d after %d was reported", c, subs[0].Progress.Cursor, cursor)
			}
		}
		shut()
	}
}

// kill runs a Victim and kills it. It returns the last write that the Victim
// reported.
func kill(t *testing.T, cmd *exec.Cmd) (seq, cursor int64) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if cursor == 0 { // it has begun
			time.AfterFunc(rand.N(50*time.Millisecond), func() { _ = cmd.Process.Kill() }) // it may have exited by itself
		}
		if _, err := fmt.Sscan(lines.Text(), &seq, &cursor); err != nil {
			t.Errorf("victim: %s", lines.Text())
			break
		}
	}
	if err := cmd.Wait(); err == nil || cursor == 0 {
		t.Fatalf("victim ended by itself after %d: %v", cursor, err)
	}
	return seq, cursor
}
