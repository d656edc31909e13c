// Package dir keeps a set of a catalog in step with a directory.
//
// [Dir.Scan] walks it in the order of the
// URIs its files get, beside the catalog's resources in the same order, and so
// sees in one pass, with memory that does not grow with the tree, what is new,
// what may have changed, what is gone:
//
//	walk (parallel, ordered)  ─┐
//	                           ├─ merge ── unchanged: nothing to do
//	catalog.Resources         ─┘      ├── new, or another Token: hash ── Apply, batch by batch
//	                                  └── gone: kept aside, applied last
//
// [Dir.Watch] scans, and scans again what the system reports as changed.
// [Dir.Open] opens a file if, and only if, a scan lists it. A [Rehasher] reads
// files again to find damage.
//
// # Which files are resources
//
// Every regular file below the root is, hidden ones included, whatever bytes
// its name is made of, except
//
//   - what the include and exclude patterns leave out ([Options]);
//   - what a Source's own documents would hide: at the root robots.txt,
//     .well-known/resourcesync, and the directories resourcesync and -;
//   - at any depth, directories called .lockstep, where lockstep keeps its own
//     state, and symbolic links that lead into one;
//   - symbolic links to directories, links that lead outside the root (every
//     absolute link counts as such), and links to nothing.
//
// A symbolic link to a regular file inside the root is a resource with the
// content of that file. Directories are never entered through a link. Devices,
// sockets and pipes are never opened. All these are named in the report.
package dir
