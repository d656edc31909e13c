package blob

// A tracer is called after each operation that changes the disk, or makes a change
// durable. Tests follow with it what a power cut could leave. It is nil otherwise.
type tracer func(op traceOp, names ...string)

type traceOp int

const (
	traceCreate  traceOp = iota // a file
	traceMkdir                  // a directory
	traceWrite                  // to a file
	traceRename                 // a file, to a name
	traceRemove                 // a file or directory
	traceSync                   // the bytes of a file
	traceSyncDir                // the names in a directory
	traceSyncAll                // everything
)

func (t tracer) did(op traceOp, names ...string) {
	if t != nil {
		t(op, names...)
	}
}
