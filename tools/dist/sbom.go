package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the software bill of materials of a binary: the modules that the
// linker recorded in it, with their hashes and licenses.
func (r *release) writeSBOM(b *binary) error {
	own := sha256.Sum256(b.program)
	main := cyclonedx.Component{
		BOMRef: "lockstep", Type: cyclonedx.ComponentTypeApplication, Name: "lockstep", Version: r.version,
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(own[:])}},
		Licenses:   licensesOf("Apache-2.0"),
		Properties: &[]cyclonedx.Property{{Name: "platform", Value: b.target.String()}},
	}
	components, refs := []cyclonedx.Component{}, []string{}
	for _, m := range b.modules {
		c := cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version,
			PackageURL: "pkg:golang/" + m.path + "@" + m.version, Licenses: licensesOf(m.licenses...),
		}
		c.BOMRef = c.PackageURL
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:")); err == nil && m.sum != "" {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid(own)
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.Format(time.RFC3339), Component: &main,
		Tools: &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{Type: cyclonedx.ComponentTypeApplication, Name: "lockstep tools/dist", Version: r.version}}},
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var w bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("write the SBOM for %s: %w", b.target, err)
	}
	return r.write(r.name(b.system+"_"+b.processor+".cdx.json"), w.Bytes())
}

// licensesOf returns licenses by their SPDX identifiers.
func licensesOf(ids ...string) *cyclonedx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	var licenses cyclonedx.Licenses
	for _, id := range ids {
		licenses = append(licenses, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &licenses
}

// uuid returns a UUID (version 8, RFC 9562) that follows from a hash.
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
