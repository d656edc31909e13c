package origins

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
)

// RecordFiles is the place where harvested records become files, for a Source that is
// nothing but files.
type RecordFiles struct {
	Store   blob.Store
	Place   string // of the store: directory or bucket
	BaseURL string // where a web server serves it
}

// openRepository opens a repository that is harvested by OAI-PMH. Its records are
// served from here.
func (o *Opener) openRepository(s *Set) (Origin, error) {
	base, prefix, spec, err := oaipmh.ParseAddress(s.Config.Origin.WithoutUser())
	if err != nil {
		return nil, err
	}
	if !config.IsAbsoluteURI(base) {
		return nil, fmt.Errorf("from %s: %s is no URL", s.Config.Origin, base)
	}
	client, err := o.Client(s.Config.Origin.Place)
	if err != nil {
		return nil, err
	}
	ho := oaiintake.Options{
		Prefix: prefix, SetSpec: spec, URI: func(id string) string { return s.URI + oaiintake.RecordPath(id) },
		Contents: o.Contents, Algorithms: s.Hashes, AllowEmpty: o.AllowEmpty,
		State: o.stateFile(s, "oai-pmh.json"), TempDir: o.State, ScanInterval: s.ScanInterval, OnEvent: s.OnEvent,
	}
	if s.Config.FullInterval != nil {
		ho.FullInterval = Interval(time.Duration(*s.Config.FullInterval))
	}
	if f := o.Files; f != nil {
		at := strings.TrimSuffix(f.BaseURL, "/") + "/"
		if !strings.HasPrefix(s.URI, at) {
			return nil, term.WithHint(fmt.Errorf("uri %s is not below the base URL, where the records are to be written", s.URI), "leave uri out")
		}
		ho.Contents = &fileContents{store: f.Store, base: at}
		where := sha256.Sum256([]byte(f.Place))
		ho.State = o.stateFile(s, fmt.Sprintf("oai-pmh-%x.json", where[:4])) // another place has no files yet
		ho.URI = func(id string) string {
			if hasLongName(oaiintake.RecordName(id)) {
				return ""
			}
			return s.URI + oaiintake.RecordPath(id)
		}
	}
	return oaiintake.New(base, client, s.Catalog, s.List, ho)
}

// maxFileName is how many bytes a file system accepts for a name, less some room
// for what a store adds to it.
const maxFileName = 200

// hasLongName reports whether a file system may refuse a name in path.
func hasLongName(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > maxFileName {
			return true
		}
	}
	return false
}
