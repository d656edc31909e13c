package transfer

// A Means is how content came.
type Means uint8

// The means by which content comes.
const (
	ByRequest  Means = iota // a request for the resource itself
	ByPackage               // a package
	ByOnDemand              // a package made on demand
	ByPatch                 // patches of what was held
	ByMirror                // a request to a mirror
	ByMemento               // a request for a memento
	ByKept                  // a version that the mirror keeps
	ByHarvest               // what was harvested with its description
)
