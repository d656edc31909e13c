package delivery

import (
	"context"

	"lockstep/hub/hubstore"
)

// Topics are the topics of a hub, and their messages.
type Topics struct {
	registry *registry
	appender *appender
	saver    *saver
	sharing  *Sharing
}

// Topics returns the topics, in no order. The State is up to date of those that this hub owns.
func (t *Topics) Topics() (all []hubstore.Topic) {
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	for _, t := range t.registry.topics {
		all = append(all, t.export())
	}
	return all
}

// Owns reports whether this hub, and no other, handles the pings of a topic.
func (t *Topics) Owns(topic string) bool { return t.sharing.Owns(hubstore.KeyOf(topic, "")) }

// Topic returns the state of a topic, whatever the spelling of its URL; false if
// the hub does not know it.
func (t *Topics) Topic(uri string) (hubstore.Topic, bool) { return t.registry.state(uri) }

// Subscribed reports whether a topic has subscribers, or may have some. This hub does
// not know the subscriptions of other hubs on the same store: with several hubs the
// answer is true.
func (t *Topics) Subscribed(topic string) bool {
	return t.sharing.Shared() || t.sharing.Subscribed(topic)
}

// Append writes a message to the log of its topic and wakes the topic's
// subscriptions. It sets ID and At if they are empty. When Append returns nil the
// message is durable; with an error of ctx it may be. It returns
// [refusal.ErrNotReady], [refusal.ErrFull], or the error of the store. The engine
// retains the memory that the message refers to: the caller must not change it.
func (t *Topics) Append(ctx context.Context, m hubstore.Message) (seq int64, err error) {
	return t.appender.append(ctx, m)
}

// Save makes the state of topics durable, and requests, of which it notifies the hubs that own
// them, also if that is this one.
func (t *Topics) Save(ctx context.Context, c hubstore.Changes) error {
	if err := t.saver.save(ctx, c); err != nil {
		return err
	}
	for _, r := range c.Ask {
		if err := t.sharing.notify(ctx, r.Key); err != nil {
			return err
		}
	}
	return nil
}
