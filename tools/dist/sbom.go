package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// binarySBOM lists the modules that are linked into a binary, as the go command recorded them in it.
func (r *release) binarySBOM(p platform, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, BOMRef: "pkg:golang/std@" + info.GoVersion, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, goComponent(m.Path, m.Version, m.Sum))
	}
	main := goComponent("github.com/penstock-io/penstock", r.version, "")
	main.Type = cdx.ComponentTypeApplication
	return r.writeSBOM(r.name(p)+".cdx.json", main, components)
}

// goComponent describes a module. Its sum is go.sum's hash of its files, which is not one that CycloneDX knows.
func goComponent(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}

// A lockFile is what npm installs for the console.
type lockFile struct {
	Packages map[string]struct {
		Version, Integrity, License string
		Dev                         bool
	}
}

// consoleSBOM lists the packages of the console. Those that only build and test it are marked as excluded.
func (r *release) consoleSBOM() error {
	text, err := os.ReadFile(filepath.Join(r.root, "internal", "console", "web", "package-lock.json"))
	if err != nil {
		return err
	}
	var lock lockFile
	if err := json.Unmarshal(text, &lock); err != nil {
		return fmt.Errorf("package-lock.json: %w", err)
	}
	var components []cdx.Component
	for path, p := range lock.Packages {
		if path == "" {
			continue
		}
		name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
		url := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: path, Name: name, Version: p.Version, PackageURL: url, Scope: cdx.ScopeRequired}
		if p.Dev {
			c.Scope = cdx.ScopeExcluded
		}
		if hash, ok := strings.CutPrefix(p.Integrity, "sha512-"); ok {
			sum, err := base64.StdEncoding.DecodeString(hash)
			if err != nil {
				return fmt.Errorf("package-lock.json: %s: %w", path, err)
			}
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(sum)}}
		}
		if p.License != "" {
			c.Licenses = &cdx.Licenses{{Expression: p.License}}
		}
		components = append(components, c)
	}
	main := cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: "console", Name: "penstock-console", Version: r.version}
	return r.writeSBOM("penstock_"+r.number()+"_console.cdx.json", main, components)
}

// writeSBOM writes a document whose serial number follows from its content, so that it can be reproduced.
func (r *release) writeSBOM(name string, main cdx.Component, components []cdx.Component) error {
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.date, Component: &main}
	bom.Components = &components
	content, err := json.Marshal(bom)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append([]byte(name), content...))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8: made by its user's own rules
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}
