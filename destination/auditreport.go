package destination

import (
	"lockstep/destination/internal/audit"
)

// publicFinding returns a finding as it is reported.
func publicFinding(f *audit.Finding) Finding {
	return Finding{Kind: FindingKind(f.Kind), Set: f.Set, URI: f.URI, Path: f.Path, Expected: publicFacts(f.Expected), Found: publicFacts(f.Found), Cause: f.Cause}
}

func publicFacts(f *audit.Facts) *Facts {
	if f == nil {
		return nil
	}
	return &Facts{Hash: f.Hash, Length: f.Length, Lastmod: f.Lastmod}
}
