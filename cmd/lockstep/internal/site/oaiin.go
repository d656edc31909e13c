package site

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
)

// openRepository makes a set from what a repository has, by OAI-PMH: its
// records are files of ours.
func openRepository(w *wayIn) (origin, error) {
	base, prefix, spec, err := oaipmh.ParseAddress(w.WithoutUser())
	if err != nil {
		return nil, err
	}
	if !config.IsAbsoluteURI(base) {
		return nil, fmt.Errorf("from %s: %s is no URL", w.Address, base)
	}
	client, err := w.site.client(w.Place)
	if err != nil {
		return nil, err
	}
	o := oaiintake.Options{
		Prefix: prefix, SetSpec: spec, URI: func(id string) string { return w.uri + oaiintake.RecordPath(id) },
		Contents: w.site.db.Contents(), Algorithms: w.hashes, AllowEmpty: w.allowEmpty,
		State: w.stateFile("oai-pmh.json"), TempDir: w.site.opts.State, ScanInterval: w.interval, OnEvent: w.onEvent,
	}
	if w.config.FullInterval != nil {
		o.FullInterval = Interval(time.Duration(*w.config.FullInterval))
	}
	if !w.site.opts.Content { // files are all there is of us
		at := strings.TrimSuffix(w.site.opts.BaseURL, "/") + "/"
		if !strings.HasPrefix(w.uri, at) {
			return nil, term.WithHint(fmt.Errorf("uri %s is not below the base URL, where the records are to be written", w.uri), "leave uri out")
		}
		o.Contents = &fileContents{store: w.site.docs, base: at}
		where := sha256.Sum256([]byte(w.site.opts.Documents))
		o.State = w.stateFile(fmt.Sprintf("oai-pmh-%x.json", where[:4])) // elsewhere there are no files yet
		o.URI = func(id string) string {
			if tooLong(oaiintake.RecordName(id)) {
				return ""
			}
			return w.uri + oaiintake.RecordPath(id)
		}
	}
	return oaiintake.New(base, client, w.catalog, w.set, o)
}

// maxFileName is how many bytes a file system takes for a name, with some room
// for what a store adds to it.
const maxFileName = 200

func tooLong(name string) bool {
	for s := range strings.SplitSeq(name, "/") {
		if len(s) > maxFileName {
			return true
		}
	}
	return false
}
