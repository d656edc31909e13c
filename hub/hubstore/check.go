package hubstore

import (
	"fmt"
	"strings"
)

// CheckMessages returns an error for messages that no store can hold: those
// whose topic is empty or has a NUL byte in it. Every other byte is allowed.
func CheckMessages(messages []Message) error {
	for i := range messages {
		if err := checkTopic(messages[i].Topic); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// Check returns an error for changes that no store can hold: keys that [KeyOf]
// never returns, and topics that [CheckMessages] refuses.
func (c *Changes) Check() error {
	for i := range c.Topics {
		if err := checkTopic(c.Topics[i].URL); err != nil {
			return err
		}
	}
	for i := range c.Put {
		if err := c.Put[i].Key.check(); err != nil {
			return err
		}
	}
	for i := range c.Ask {
		if err := c.Ask[i].Key.check(); err != nil {
			return err
		}
	}
	return nil
}

func checkTopic(url string) error {
	if url == "" || strings.IndexByte(url, 0) >= 0 {
		return fmt.Errorf("topic %q: a topic must not be empty or hold a NUL byte", url)
	}
	return nil
}

// keyLength is the length of a Key, in lower-case hexadecimal digits: stores
// find the keys of a shard by their first digits.
const keyLength = 32

func (k Key) check() error {
	if len(k) != keyLength || strings.Trim(string(k), "0123456789abcdef") != "" {
		return fmt.Errorf("key %q: want %d hexadecimal digits, see KeyOf", string(k), keyLength)
	}
	return nil
}
