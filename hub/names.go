package hub

import (
	"lockstep/hub/hubstore"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/status"
)

// What a hub stores, from package hubstore.
type (
	Store        = hubstore.Store
	Sharer       = hubstore.Sharer
	Checker      = hubstore.Checker
	Mem          = hubstore.Mem
	Key          = hubstore.Key
	Topic        = hubstore.Topic
	Message      = hubstore.Message
	Subscription = hubstore.Subscription
	Progress     = hubstore.Progress
	Request      = hubstore.Request
	Changes      = hubstore.Changes
)

// What operators see of a hub, from package status.
type (
	Stats              = status.Stats
	Histogram          = status.Histogram
	TopicStatus        = status.Topic
	SubscriptionStatus = status.Subscription
	MessageStatus      = status.Message
	FailedVerification = status.FailedVerification
)

// A Refusal is the error with which a hub refuses a request, for [Options.MaySubscribe].
type Refusal = refusal.Refusal

// Shards is [hubstore.Shards].
const Shards = hubstore.Shards

// ErrStore is [hubstore.ErrStore].
var ErrStore = hubstore.ErrStore

// NewMem returns an empty store in memory.
func NewMem() *Mem { return hubstore.NewMem() }

// KeyOf returns the key of the subscription of callback to topic.
func KeyOf(topic, callback string) Key { return hubstore.KeyOf(topic, callback) }

// CheckMessages returns an error for messages that no store can hold.
func CheckMessages(messages []Message) error { return hubstore.CheckMessages(messages) }
