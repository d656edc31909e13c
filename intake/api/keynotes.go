package api

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Notes are small documents with names, in a database.
type Notes interface {
	// Load returns a note; nil: there is none.
	Load(name string) ([]byte, error)

	// SaveAll replaces notes, all or none, and durably; nil removes one.
	SaveAll(notes map[string][]byte) error
}

// keyNotes is a keyStore of notes. A file is cut into blocks, each a note, of which only the last
// one is written again. One more note lists the files.
//
//	PREFIXkeys                       JSON, a noteList
//	PREFIXkeys-00000001.log/0        bytes
//	PREFIXkeys-00000001.log/1        …
type keyNotes struct {
	notes  Notes
	prefix string
	files  []noteInfo
}

// A noteInfo describes a file.
type noteInfo struct {
	Name   string    `json:"name"`
	Begun  time.Time `json:"begun"`
	Blocks int       `json:"blocks"`
}

// noteBlock is how long the last block of a file may be when something is added to it: so much is
// written again with every addition.
const noteBlock = 16 << 10

// noteCache is how much of a file stays in memory while it is read for the first time.
const noteCache = 16 << 20

func (s *keyNotes) place(name string) string { return s.prefix + name + " in the database" }

func (s *keyNotes) listName() string { return s.prefix + "keys" }

func (s *keyNotes) blockName(name string, block int) string {
	return fmt.Sprintf("%s%s/%d", s.prefix, name, block)
}

func (s *keyNotes) list() (names []string, err error) {
	s.files = nil
	text, err := s.notes.Load(s.listName())
	if err == nil && text != nil {
		err = json.Unmarshal(text, &s.files)
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of idempotency keys: %w", err)
	}
	for _, f := range s.files {
		names = append(names, f.Name)
	}
	return names, nil
}

func (s *keyNotes) find(name string) int {
	return slices.IndexFunc(s.files, func(f noteInfo) bool { return f.Name == name })
}

// open reads the blocks once, since their lengths are stored nowhere else. The file is about to be read
// through, so those of a file of usual size stay in memory until it has been.
func (s *keyNotes) open(name string) (keyFile, int64, time.Time, error) {
	info := s.files[s.find(name)]
	f := &noteFile{store: s, name: name}
	for block := range info.Blocks {
		text, err := f.load(block)
		if err != nil {
			return nil, 0, time.Time{}, err
		}
		f.starts, f.size = append(f.starts, f.size), f.size+int64(len(text))
		if f.size <= noteCache {
			f.read = append(f.read, text)
		}
	}
	return f, f.size, info.Begun, nil
}

func (s *keyNotes) create(name string, now time.Time) (keyFile, error) {
	if err := s.save(append(slices.Clone(s.files), noteInfo{Name: name, Begun: now}), nil); err != nil {
		return nil, err
	}
	return &noteFile{store: s, name: name}, nil
}

func (s *keyNotes) remove(name string) error {
	i := s.find(name)
	if i < 0 {
		return nil
	}
	gone := make(map[string][]byte)
	for block := range s.files[i].Blocks {
		gone[s.blockName(name, block)] = nil
	}
	return s.save(slices.Delete(slices.Clone(s.files), i, i+1), gone)
}

// save saves blocks, and the list of the files.
func (s *keyNotes) save(files []noteInfo, blocks map[string][]byte) error {
	text, err := json.Marshal(files)
	if err != nil {
		return err
	}
	all := map[string][]byte{s.listName(): text}
	for name, block := range blocks {
		all[name] = block
	}
	if err := s.notes.SaveAll(all); err != nil {
		return err
	}
	s.files = files
	return nil
}

// A noteFile is a keyFile of keyNotes.
type noteFile struct {
	store  *keyNotes
	name   string
	starts []int64 // of the blocks
	size   int64
	last   []byte   // the last block, if the file was created by this process
	read   [][]byte // the first blocks, until the end of the file is read
}

// Close implements [io.Closer]. Nothing is held open.
func (f *noteFile) Close() error { return nil }

func (f *noteFile) load(block int) ([]byte, error) {
	if f.last != nil && block == len(f.starts)-1 {
		return f.last, nil
	}
	if block < len(f.read) {
		return f.read[block], nil
	}
	text, err := f.store.notes.Load(f.store.blockName(f.name, block))
	if err == nil && text == nil {
		err = fmt.Errorf("block %d is missing", block)
	}
	return text, err
}

// ReadAt implements [io.ReaderAt].
func (f *noteFile) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		at := offset + int64(n)
		if at >= f.size {
			f.read = nil
			return n, io.EOF
		}
		block, found := slices.BinarySearch(f.starts, at)
		if !found {
			block--
		}
		text, err := f.load(block)
		if err != nil {
			return n, err
		}
		if at-f.starts[block] >= int64(len(text)) {
			return n, io.ErrUnexpectedEOF
		}
		n += copy(p[n:], text[at-f.starts[block]:])
	}
	return n, nil
}

// write implements [keyFile].
func (f *noteFile) write(text []byte, offset int64) error {
	if len(f.starts) > 0 && len(f.last)+len(text) <= noteBlock {
		block := append(slices.Clone(f.last), text...)
		if err := f.store.notes.SaveAll(map[string][]byte{f.store.blockName(f.name, len(f.starts)-1): block}); err != nil {
			return err
		}
		f.last, f.size = block, offset+int64(len(text))
		return nil
	}
	files := slices.Clone(f.store.files)
	i := f.store.find(f.name)
	files[i].Blocks++
	block := slices.Clone(text)
	if err := f.store.save(files, map[string][]byte{f.store.blockName(f.name, len(f.starts)): block}); err != nil {
		return err
	}
	f.starts, f.last, f.size = append(f.starts, f.size), block, offset+int64(len(text))
	return nil
}
