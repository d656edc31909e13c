// Package hashlanes computes MD5 and SHA-256 digests of many messages side by side.
//
// The steps of these algorithms depend on each other, so that a processor computes
// one digest with a fraction of what it could do. With the vector instructions AVX2
// and AVX-512 it takes the same steps for 8 or 16 messages at once. [MD5] and
// [SHA256] use them if they are faster on this machine, which is measured when there
// are several messages for the first time: it takes less than a millisecond. The
// digests are those of crypto/md5 and crypto/sha256.
package hashlanes
