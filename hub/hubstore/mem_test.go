package hubstore_test

import (
	"slices"
	"testing"

	"lockstep/hub/hubstore"
	"lockstep/hub/hubtest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, func(*testing.T) hubstore.Store { return hubstore.NewMem() })
}

// TestKeyOf: topic and callback identify a subscription (WS-H-07), regardless
// of the encoding of unreserved characters (WS-H-09).
func TestKeyOf(t *testing.T) {
	t.Parallel()
	const topic, callback = "https://example.org/~t?a=b", "https://example.org/c%2Fd"
	k := hubstore.KeyOf(topic, callback)
	for _, same := range []string{"https://example.org/%7et?a=b", "https://example.org/%7Et?%61=b", "https://%65xample.org/~t?a=b"} {
		if got := hubstore.KeyOf(same, callback); got != k {
			t.Errorf("KeyOf(%s) = %s, want %s", same, got, k)
		}
	}
	keys := []hubstore.Key{
		k, hubstore.KeyOf(callback, topic), hubstore.KeyOf(topic, callback+"/"), hubstore.KeyOf(topic, "https://example.org/c/d"),
		hubstore.KeyOf(topic, "https://example.org/c%2fd"), hubstore.KeyOf("", ""), hubstore.KeyOf(topic+"\n", callback),
	}
	for i, k := range keys {
		if slices.Index(keys, k) != i {
			t.Errorf("key %d is that of another subscription", i)
		}
		if err := (&hubstore.Changes{Put: []hubstore.Subscription{{Key: k}}}).Check(); err != nil {
			t.Error(err)
		}
		if s := k.Shard(); s < 0 || s >= hubstore.Shards {
			t.Errorf("shard %d", s)
		}
	}
}
