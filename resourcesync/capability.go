package resourcesync

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/schema"
)

// A Capability is the function of a document (RS-GEN-04). The zero value is
// that of a plain Sitemap, which states none.
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

// The capabilities of Archives and of Change Notification.
const (
	ResourceListArchive Capability = "resourcelist-archive"
	ResourceDumpArchive Capability = "resourcedump-archive"
	ChangeListArchive   Capability = "changelist-archive"
	ChangeDumpArchive   Capability = "changedump-archive"
	ChangeNotification  Capability = "change-notification"
)

// ErrUnknownCapability reports a capability this package does not know: an
// extension (RS-GEN-06) or a mistake.
var ErrUnknownCapability = errors.New("unknown capability")

// ParseCapability returns the Capability with the spelling s, exactly as in the
// standard.
func ParseCapability(s string) (Capability, error) {
	c := Capability(s)
	if schema.KindOf(c, false) == schema.Unknown {
		return "", fmt.Errorf("%w %q", ErrUnknownCapability, xmlscan.Clip(s))
	}
	return c, nil
}

// Changes reports whether documents of capability c list changes in an
// interval; other documents list a state.
func (c Capability) Changes() bool {
	switch c {
	case ChangeList, ChangeDump, ChangeDumpManifest, ChangeNotification:
		return true
	}
	return false
}

// A Change is what happened to a resource (RS-EM-02). The zero value means that
// no change is stated.
type Change uint8

// The changes a resource can undergo.
const (
	Created Change = iota + 1
	Updated
	Deleted

	// UnknownChange is what a Reader returns for an entry of a change document that
	// states no change, or an unknown one: whether the resource still exists can
	// only be seen at its loc. A Writer refuses it.
	UnknownChange
)

// ParseChange returns the Change with the spelling s in any case, also in the
// legacy spellings "create", "update" and "delete" (RS-EM-02).
func ParseChange(s string) (Change, error) {
	switch strings.ToLower(s) {
	case "created", "create":
		return Created, nil
	case "updated", "update":
		return Updated, nil
	case "deleted", "delete":
		return Deleted, nil
	}
	return 0, fmt.Errorf("unknown change %q", xmlscan.Clip(s))
}

// String returns the standard's word for c, or "" for none.
func (c Change) String() string {
	switch c {
	case Created:
		return "created"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	case UnknownChange:
		return "unknown"
	}
	return ""
}
