package bitstream

// Diff makes a delta, without a Keeper.
func Diff(before, after []byte) ([]byte, error) { return testDeltas.diff(before, after) }

// DiffJSON makes a JSON Patch, or none.
func DiffJSON(before, after []byte) []byte { return diffJSON(before, after) }

var testDeltas deltas // shared, so that encoders are used again
