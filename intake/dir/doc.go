// Package dir keeps a set of a catalog in step with a directory.
//
// [Dir.Scan] walks the directory in the order of its files' URIs and reads the
// catalog's resources in the same order. So it finds in one pass, with memory that
// does not grow with the tree, which files are new, which may have changed and
// which are gone:
//
//	walk (parallel, ordered)  ─┐
//	                           ├─ merge ── unchanged: nothing to do
//	catalog.Resources         ─┘      ├── new, or another Token: hash ── Apply, in batches
//	                                  └── gone: kept aside, applied last
//
// [Dir.Watch] scans, and then scans again the paths that the system reports as
// changed. [Dir.Open] opens a file if, and only if, a scan lists it. A [Rehasher]
// reads files again to detect damage.
//
// # Which files are resources
//
// Every regular file below the root is a resource, hidden files included, whatever
// bytes its name has, except
//
//   - what the include and exclude patterns leave out ([Options]);
//   - what a Source's own documents would hide: at the root robots.txt,
//     .well-known/resourcesync, and the directories resourcesync and -;
//   - at any depth, directories called .lockstep, in which Lockstep keeps its own
//     state, and symbolic links that lead into one;
//   - symbolic links to directories, links that lead outside the root (every
//     absolute link counts as such), and links to nothing.
//
// A symbolic link to a regular file inside the root is a resource with the content
// of that file. Directories are never entered through a link. Devices, sockets and
// pipes are never opened. The report names all of these.
package dir
