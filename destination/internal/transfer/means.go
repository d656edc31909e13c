package transfer

// A Means is the method by which content was obtained.
type Means uint8

// Methods of obtaining content.
const (
	ByRequest  Means = iota // a request for the resource itself
	ByPackage               // a package
	ByOnDemand              // a package made on demand
	ByPatch                 // patches applied to the version held
	ByMirror                // a request to a mirror
	ByMemento               // a request for a memento
	ByKept                  // a version that the mirror stores
	ByHarvest               // content harvested with its description
)
