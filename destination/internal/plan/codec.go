package plan

import "lockstep/destination/internal/desired"

// AppendTo encodes an action that fetches content from a package, for the scratch
// space.
func (a *Action) AppendTo(b []byte) []byte {
	b = append(b, flag(a.Conditional)|flag(a.FileMissing)<<1|flag(a.IsHeld())<<2|flag(len(a.Patches) > 0)<<3)
	b = desired.AppendString(b, a.URI)
	b = a.Resource.Append(b)
	if a.IsHeld() {
		b = desired.AppendHeld(b, &a.Held)
	}
	if len(a.Patches) > 0 {
		b = desired.AppendPatches(b, a.Patches)
	}
	return b
}

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// Decode decodes an action that AppendTo encoded.
func Decode(b []byte) (*Action, error) {
	d := desired.Decoder{B: string(b)}
	flags, uri := d.Byte(), d.Text()
	if !d.OK() {
		return nil, desired.ErrDamaged
	}
	a := &Action{Verb: Fetch, Conditional: flags&1 != 0, FileMissing: flags&2 != 0}
	var err error
	var rest string
	if a.Resource, rest, err = desired.Decode(uri, d.B); err != nil {
		return nil, err
	}
	if flags&4 != 0 {
		var left []byte
		if a.Held, left, err = desired.DecodeHeld([]byte(rest)); err != nil {
			return nil, err
		}
		rest = string(left)
	}
	if flags&8 != 0 {
		d = desired.Decoder{B: rest}
		if a.Patches = d.Patches(); !d.OK() {
			return nil, desired.ErrDamaged
		}
	}
	return a, nil
}
