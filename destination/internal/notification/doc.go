// Package notification applies the notifications of one set. A Pass reads messages,
// stages the changes that are new, asks the Source about deletions and has the rest
// applied; it reads no documents, only contents.
package notification
