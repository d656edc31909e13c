// Package intake fills the catalog of a Source and keeps it in step with an origin:
// a directory, a bucket, a list, a Sitemap, a feed, a repository, or an application.
// Each origin has a package of its own below this one, and what origins share is
// here: the [Report] of a scan, the [Event] of a change, and the rules below.
//
// Each origin is a type with the methods Scan, which compares once, and Watch, which
// continues until its context ends. An origin whose representations can be opened
// also has the method Bitstream.
//
// A scan compares two sequences that are ordered by URI, the origin and the
// catalog, in one pass, with memory that does not grow with their length:
//
//	origin (sorted)    ─┐
//	                    ├─ merge ── unchanged: nothing to do
//	catalog.Resources  ─┘      ├── new, or another Token: hash ── Apply, in batches
//	                           └── gone: kept aside, applied last
//
// A directory is walked in the order of its URIs. Lists are in any order, so they are
// sorted first, on disk if they are long. The Token of a record is the state of a file,
// or the hash of what a list says about the resource.
//
// # Which files of a directory are resources
//
// Every regular file below the root is a resource, hidden files included, whatever
// bytes its name has, except
//
//   - what the include and exclude patterns leave out;
//   - what the Source's own documents would hide: at the root robots.txt,
//     .well-known/resourcesync, and the directories resourcesync and -;
//   - at any depth, directories called .lockstep, in which Lockstep keeps its own
//     state, and symbolic links that lead into one;
//   - symbolic links to directories, links that lead outside the root (every
//     absolute link counts as such), and links to nothing.
//
// A symbolic link to a regular file inside the root is a resource with the content
// of that file. Directories are never entered through a link. Devices, sockets and
// pipes are never opened. The [Report] names all of these.
//
// # What a scan never does
//
// A resource that cannot be read is reported and stays in the catalog as it was, and
// so does everything below a directory that cannot be read. A scan deletes nothing if
// it did not reach its end, if the origin is suddenly empty, or if a list names less
// than half of the resources that it named before. A file that changes while it is read
// is read again, and stays as it was if it keeps changing.
package intake
