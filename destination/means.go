package destination

// A means is how content came.
type means uint8

// The means by which content comes.
const (
	byRequest  means = iota // a request for the resource itself
	byPackage               // a package
	byOnDemand              // a package made on demand
	byPatch                 // patches of what was held
	byMirror                // a request to a mirror
	byMemento               // a request for a memento
	byKept                  // a version that the mirror keeps
	byHarvest               // what was harvested with its description
)
