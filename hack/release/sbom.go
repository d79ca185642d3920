package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime/debug"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeSBOM writes the modules of a program, as the go command recorded them, and the
// scripts that it serves, in the format of CycloneDX.
func (r release) writeSBOM(src source, p program) error {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(binary)
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: "certplane", Version: r.version,
		BOMRef: purl(p.info.Main.Path, r.version), PackageURL: purl(p.info.Main.Path, r.version),
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	settings := properties(p.info.Settings)
	main.Properties = &settings
	components := []cdx.Component{component("std", p.info.GoVersion)}
	var refs []string
	for _, dep := range p.info.Deps {
		dep = effective(dep)
		components = append(components, component(dep.Path, dep.Version))
	}
	scripts, err := readScripts(src)
	if err != nil {
		return err
	}
	for _, s := range scripts {
		components = append(components, s.component())
	}
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	// It is the same for the same program.
	bom.SerialNumber = uuid.NewHash(sha256.New(), uuid.NameSpaceOID, sum[:], 8).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	out, err := os.Create(r.name("_" + p.os + "_" + p.arch + ".cdx.json"))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return out.Close()
}

func component(path, version string) cdx.Component {
	name := purl(path, version)
	return cdx.Component{Type: cdx.ComponentTypeLibrary, Name: path, Version: version, BOMRef: name, PackageURL: name}
}

// purl returns the name of a module as a package URL.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

// properties returns the settings of the build.
func properties(settings []debug.BuildSetting) []cdx.Property {
	var all []cdx.Property
	for _, s := range settings {
		all = append(all, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return all
}
