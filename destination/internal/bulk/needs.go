package bulk

import (
	"fmt"
	"strings"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/wording"
)

const (
	// packageRequests is the number of requests for a package: for its manifest,
	// its end and directory, and its content.
	packageRequests = 4

	// assumedBytes is the length assumed for resources without a stated length.
	assumedBytes = 8 << 10
)

// Needs counts the content that a plan has to fetch.
type Needs struct {
	Count, bytes, unsized int64         // of all resources
	Small, SmallBytes     int64         // of those that a package made on demand can contain
	packages              map[int]int64 // number of resources by the package that has their content
	Packed, packedBytes   int64         // of resources with their content in packages
	patched, patchBytes   int64         // of resources that patches produce, and the bytes of the patches
	Lost                  int64         // for a former state: resources for which neither a package nor a memento is known
}

// Add counts an action.
func (n *Needs) Add(a *plan.Action) {
	if a.Verb != plan.Fetch || a.Rehash {
		return
	}
	n.Count++
	if steps, bytes := a.PatchesFirst(a.Member.Package > 0); len(steps) > 0 {
		n.patched, n.patchBytes, n.bytes = n.patched+1, n.patchBytes+bytes, n.bytes+bytes
		return
	}
	length := a.Length
	if length < 0 {
		n.unsized++
		length = assumedBytes
	}
	n.bytes += length
	if a.Member.Package == 0 && !a.HasMemento() {
		n.Lost++
	}
	switch {
	case a.Member.Package > 0:
		if n.packages == nil {
			n.packages = map[int]int64{}
		}
		n.packages[a.Member.Package]++
		n.Packed++
		n.packedBytes += length
	case length <= DemandLength && !a.Conditional && a.From == "" && content.HasKnown(a.Hashes):
		n.Small++
		n.SmallBytes += length
	}
}

// PackagesPay reports whether packages are the cheaper method of getting the needed
// content, by the estimated costs of packages and of single requests, or of
// packages made on demand if the Source offers these.
func (n *Needs) PackagesPay(refs []dump.Ref, onDemand bool) bool {
	var whole int64
	for _, ref := range refs {
		whole += packageRequests * plan.RequestBytes
		if ref.Length < 0 {
			// Assume that it contains the needed content and as much again.
			whole += 2 * n.bytes / int64(len(refs))
		}
		whole += max(ref.Length, 0)
	}
	alone := n.bytes + n.Count*plan.RequestBytes
	if onDemand && n.Small >= DemandLeast {
		alone = min(alone, n.bytes+n.Small*512+(n.Count-n.Small+n.Small/DemandCount+1)*plan.RequestBytes)
	}
	return whole <= alone+alone/10 // a prepared file costs the Source less than a package made on demand
}

// Explain describes how many resources are going to be fetched by which methods.
// kind is the kind of document whose packages are used.
func (n *Needs) Explain(kind string, by *Methods) string {
	alone := n.Count
	var parts []string
	if n.Packed > 0 && by.Packages != nil {
		alone -= n.Packed
		parts = append(parts, fmt.Sprintf("%s by %s (%s, %s)", wording.Grouped(n.Packed), kind, wording.Plural(int64(len(n.packages)), "package"), wording.Size(n.packedBytes)))
	}
	if by.Demand != nil {
		alone -= n.Small
		parts = append(parts, fmt.Sprintf("%s by packages on demand (%s at a time, %s)", wording.Grouped(n.Small), wording.Grouped(int64(by.Demand.Most)), wording.Size(n.SmallBytes)))
	}
	if n.patched > 0 {
		alone -= n.patched
		parts = append(parts, fmt.Sprintf("%s by patches (%s)", wording.Grouped(n.patched), wording.Size(n.patchBytes)))
	}
	if alone > 0 {
		parts = append(parts, wording.Grouped(alone)+" by single requests")
	}
	return strings.Join(parts, "; ")
}
