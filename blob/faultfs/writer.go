package faultfs

import "lockstep/blob"

// A writer fails as faults say.
type writer struct {
	blob.Writer
	faults *Faults
}

// A renamer is a writer of a store whose Writers can be renamed.
type renamer struct {
	*writer
	blob.Renamer
}

// A dirWriter is a writer of a [blob.Dir].
type dirWriter struct {
	*writer
	blob.Renamer
	blob.Sealer
}

func wrap(w blob.Writer, f *Faults, bare bool) blob.Writer {
	inner := &writer{w, f}
	r, renames := w.(blob.Renamer)
	s, seals := w.(blob.Sealer)
	switch _, keeps := w.(blob.Keeper); {
	case bare:
	case renames && seals && keeps:
		return &dirWriter{inner, r, s}
	case renames:
		return &renamer{inner, r}
	}
	return inner
}

// unwrap returns the Writer of the store below.
func unwrap(w blob.Writer) blob.Writer {
	switch w := w.(type) {
	case *writer:
		return w.Writer
	case *renamer:
		return w.writer.Writer
	case *dirWriter:
		return w.writer.Writer
	}
	return w
}

// Write implements [blob.Writer]. One that fails has written half of its bytes, or
// zeros in place of all if the power was cut.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.faults.Step(); err != nil {
		if w.faults.Mode == PowerCut {
			p = make([]byte, len(p))
		} else {
			p = p[:len(p)/2]
		}
		n, _ := w.Writer.Write(p) // err says more
		return n, err
	}
	fits, full := w.faults.fits(len(p))
	n, err := w.Writer.Write(p[:fits])
	if err == nil {
		err = full
	}
	return n, err
}

// Close implements [blob.Writer]. A dead process leaves what it has written.
func (w *writer) Close() error {
	if k, ok := w.Writer.(blob.Keeper); ok && w.faults.isDown() {
		_ = k.Keep() // was committed
		return nil
	}
	return w.Writer.Close()
}

// Keep implements [blob.Keeper].
func (w *dirWriter) Keep() error {
	if err := w.faults.Step(); err != nil {
		return err
	}
	return w.writer.Writer.(blob.Keeper).Keep()
}
