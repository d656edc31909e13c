// Package hub implements a WebSub hub: it accepts messages and subscriptions,
// stores them, and delivers each message to the subscribers of its topic. It
// knows nothing of ResourceSync: it takes any topic and any content type and
// delivers the bytes unchanged.
//
// A message that the hub has answered with 202 is durable. It is delivered at
// least once, and in order, to every subscription that was active at that time.
package hub
