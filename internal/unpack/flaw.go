package unpack

import (
	"fmt"
	"strings"
)

// A flaw is the reason why a member is not read. The first one found is kept.
type flaw uint8

const (
	flawNone flaw = iota
	flawDirectory
	flawName
	flawEncrypted
	flawLink
	flawDevice
	flawVolume
	flawMethod
	flawSize
	flawOverlap
	flawBeyond
	flawTwice
)

var flaws = [...]string{
	flawDirectory: "it is a directory",
	flawName:      "its name leads out of the package",
	flawEncrypted: "it is encrypted",
	flawLink:      "it is a link",
	flawDevice:    "it is a device, a pipe or a socket",
	flawVolume:    "it is in another volume",
	flawSize:      "it claims to be larger than its bytes can hold",
	flawOverlap:   "it overlaps another member",
	flawBeyond:    "it reaches into the directory",
	flawTwice:     "there are two of its name",
}

// Refused returns the reason why the member must not be read, or ""
// (RS-ZIP-06).
func (m *Member) Refused() string {
	if m.flaw == flawMethod {
		return fmt.Sprintf("it is compressed by method %d, only 0 and 8 are read", m.Method)
	}
	return flaws[m.flaw]
}

func (m *Member) blame(f flaw) {
	if m.flaw == flawNone {
		m.flaw = f
	}
}

// maxRatio is the maximum compression ratio of deflate: a match of 258 bytes
// takes at least two bits.
const maxRatio = 1032

// judge determines the flaw of a member from its record alone.
func (m *Member) judge(flags uint16, attributes uint32, disk uint16) {
	switch kind := attributes >> 16 & modeType; {
	case kind == modeDirectory, m.Size == 0 && (strings.HasSuffix(m.Name, "/") || strings.HasSuffix(m.Name, `\`)):
		m.blame(flawDirectory)
	case kind == 0o120000, attributes&winReparse != 0:
		m.blame(flawLink)
	case kind != 0 && kind != modeRegular, attributes&winDevice != 0:
		m.blame(flawDevice)
	}
	if unsafeName(m.key()) {
		m.blame(flawName)
	}
	if flags&(flagEncrypted|flagStrong|flagMasked) != 0 {
		m.blame(flawEncrypted)
	}
	if disk != 0 && disk != max16 {
		m.blame(flawVolume)
	}
	if m.Method != methodStored && m.Method != methodDeflate || flags&flagPatched != 0 {
		m.blame(flawMethod)
	}
	switch {
	case m.Method == methodStored && m.Size != m.Packed, m.Method == methodDeflate && m.Size > (m.Packed+1)*maxRatio:
		m.blame(flawSize)
	}
}

// unsafeName reports whether a name, without its leading slashes, would lead
// out of the directory into which a package is unpacked, on any system.
func unsafeName(name string) bool {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return true
	}
	if len(name) >= 2 && name[1] == ':' && (name[0]|0x20 >= 'a' && name[0]|0x20 <= 'z') {
		return true // a drive
	}
	for {
		i := strings.IndexAny(name, `/\`)
		seg := name
		if i >= 0 {
			seg = name[:i]
		}
		if seg == ".." {
			return true
		}
		if i < 0 {
			return false
		}
		name = name[i+1:]
	}
}
