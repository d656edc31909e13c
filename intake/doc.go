// Package intake keeps a catalog in step with what lies outside: the step of a
// Source before everything else.
//
// Each way in is a type with the methods Scan, which compares once, and Watch,
// which goes on; one whose representations can be had has Bitstream, too. What
// is said of problems and deletions below holds for all of them.
//
// A [Dir] watches over a directory. [Dir.Scan] walks it in the order of the
// URIs its files get, beside the catalog's resources in the same order, and so
// sees in one pass, with memory that does not grow with the tree, what is new,
// what may have changed, what is gone:
//
//	walk (parallel, ordered)  ─┐
//	                           ├─ merge ── unchanged: nothing to do
//	catalog.Resources         ─┘      ├── new, or another Token: hash ── Apply, batch by batch
//	                                  └── gone: kept aside, applied last
//
// [Dir.Watch] scans, and scans again what the system says has been touched.
// [Dir.Open] opens a file if, and only if, a scan lists it.
//
// A [JSONL] and a [Sitemap] list what lies elsewhere, in any order: what they
// say is sorted, on disk if it is much, and then merged with the catalog in the
// same way. The Token of a record is the hash of what was said. A [Web] opens
// representations where their URIs say they are.
//
// Package api fills a set with changes that applications send over HTTP.
//
// # Which files are resources
//
// Every regular file below the root is, hidden ones included, whatever bytes
// its name is made of, except
//
//   - what the include and exclude patterns leave out ([DirOptions]);
//   - what a Source's own documents would hide: at the root robots.txt,
//     .well-known/resourcesync, and the directories resourcesync and -;
//   - at any depth, directories called .lockstep, where lockstep keeps its own
//     state, and symbolic links that lead into one;
//   - symbolic links to directories, links that lead outside the root (every
//     absolute link counts as such), and links to nothing.
//
// A symbolic link to a regular file inside the root is a resource with the
// content of that file. Directories are never entered through a link. Devices,
// sockets and pipes are never opened. All these are named in the [Report].
//
// # What is never done
//
// A file that cannot be read is reported and stays in the catalog as it was; so
// does everything below a directory that cannot be read. Nothing is deleted by
// a scan that did not reach its end, nor when the directory is suddenly empty
// ([ErrEmpty]), or a list names less than half of what it did. A file that
// changes while it is read is read again, and left as it was when it does not
// come to rest ([ErrChanging]).
package intake
