package resourcesync

// A Capability says what a document offers (RS-GEN-04).
// The zero value is that of a plain Sitemap, which says nothing of itself.
type Capability string

// The capabilities of the core standard.
const (
	Description          Capability = "description"
	CapabilityList       Capability = "capabilitylist"
	ResourceList         Capability = "resourcelist"
	ResourceDump         Capability = "resourcedump"
	ResourceDumpManifest Capability = "resourcedump-manifest"
	ChangeList           Capability = "changelist"
	ChangeDump           Capability = "changedump"
	ChangeDumpManifest   Capability = "changedump-manifest"
)

// A Change says what happened to a resource (RS-EM-02).
// The zero value means that no change is stated.
type Change uint8

// The changes a resource can undergo.
const (
	Created Change = iota + 1
	Updated
	Deleted
)
