// Package hub is a WebSub hub: it accepts, persists, and fans out. Of
// ResourceSync it knows nothing: any topic, any content type, untouched bytes.
//
// What the hub answered 202 is durable, and delivered at least once to every
// subscription that was live then, in order.
package hub
