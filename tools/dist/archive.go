package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zip"
)

// A file is an entry of an archive. One whose name ends in / is a directory.
type file struct {
	name string
	mode fs.FileMode
	uid  int // of the owner and the group
	data []byte
}

// writeArchive writes the archive of a platform: the program with its manual pages,
// completion scripts and licenses, below one directory.
func (r *release) writeArchive(b *binary, texts map[string][]byte) error {
	base := r.name(b.system + "_" + b.processor)
	files := []file{
		{name: base + "/" + b.fileName(), mode: 0o755, data: b.program},
		{name: base + "/licenses.txt", mode: 0o644, data: b.licenseTexts()},
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		files = append(files, file{name: base + "/" + name, mode: 0o644, data: texts[name]})
	}
	if b.system == "windows" {
		data, err := zipped(files, r.time)
		if err != nil {
			return err
		}
		return r.write(base+".zip", data)
	}
	data, err := tarred(files, r.time)
	if err != nil {
		return err
	}
	if data, err = gzipped(data); err != nil {
		return err
	}
	return r.write(base+".tar.gz", data)
}

// tarred returns a tar archive. Owners have numbers only.
func tarred(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: int64(f.mode), Size: int64(len(f.data)), Uid: f.uid, Gid: f.uid, ModTime: at, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// gzipped compresses data, with a library whose version is fixed in go.mod, unlike
// that of Go's own.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// zipped returns a ZIP archive.
func zipped(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC()}
		h.SetMode(f.mode)
		e, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(e, bytes.NewReader(f.data)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
