package column

import (
	"encoding/binary"

	"lockstep/intake/harvest/ledger"
)

// AppendResources appends the number of resources, and each as its URI and its
// type, preceded by their lengths.
func AppendResources(b []byte, resources []ledger.Resource) []byte {
	b = binary.AppendUvarint(b, uint64(len(resources)))
	for _, r := range resources {
		b = append(binary.AppendUvarint(b, uint64(len(r.URI))), r.URI...)
		b = append(binary.AppendUvarint(b, uint64(len(r.Type))), r.Type...)
	}
	return b
}

// CutResources is the inverse of AppendResources. It returns what follows in s.
func CutResources(s string) (resources []ledger.Resource, rest string, err error) {
	n, s, err := cutNumber(s)
	for ; err == nil && n > 0; n-- {
		var r ledger.Resource
		if r.URI, s, err = cutText(s); err != nil {
			break
		}
		if r.Type, s, err = cutText(s); err != nil {
			break
		}
		resources = append(resources, r)
	}
	return resources, s, err
}

func cutNumber(s string) (uint64, string, error) {
	n, size := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	if size <= 0 {
		return 0, "", ErrDamaged
	}
	return n, s[size:], nil
}

func cutText(s string) (text, rest string, err error) {
	n, s, err := cutNumber(s)
	if err != nil || n > uint64(len(s)) {
		return "", "", ErrDamaged
	}
	return s[:n], s[n:], nil
}
