package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// A module is part of a binary: one that the program requires, or the standard
// library.
type module struct {
	path, version string
	sum           string // as in go.sum; "" for the standard library
	dir           string
	texts         []text // of its licenses
	licenses      []string
}

// A text is a file about the license of a module.
type text struct {
	name string
	data []byte
}

// standardLibrary is the name of the standard library among modules.
const standardLibrary = "std"

// listModules returns where the modules are that were downloaded, by path.
func listModules(ctx context.Context) (map[string]module, error) {
	out, err := goTool(ctx, "list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}", "all")
	if err != nil {
		return nil, err
	}
	modules := map[string]module{}
	for line := range strings.SplitSeq(out, "\n") {
		if fields := strings.Split(line, "\t"); len(fields) == 3 && fields[1] != "" {
			modules[fields[0]] = module{path: fields[0], version: fields[1], dir: fields[2]}
		}
	}
	root, err := goTool(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules[standardLibrary] = module{path: standardLibrary, dir: root}
	return modules, nil
}

// findModules fills in what is linked into the binary, with the licenses. The go
// command has downloaded these modules to build it, and perhaps no others.
func (b *binary) findModules(ctx context.Context) error {
	all, err := listModules(ctx)
	if err != nil {
		return err
	}
	std := all[standardLibrary]
	std.version = strings.TrimPrefix(b.info.GoVersion, "go")
	b.modules = []module{std}
	for _, d := range b.info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		m, ok := all[d.Path]
		if !ok || m.version != d.Version || m.dir == "" {
			return fmt.Errorf("%s: module %s@%s of the binary is not in the module cache", b.target, d.Path, d.Version)
		}
		m.sum = d.Sum
		b.modules = append(b.modules, m)
	}
	for i := range b.modules {
		if err := b.modules[i].readLicenses(); err != nil {
			return err
		}
	}
	slices.SortFunc(b.modules, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return nil
}

// licenseFile matches the names of files that must accompany copies of a module,
// licenseName those of them that are licenses.
var (
	licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense|notice|patents)`)
	licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)`)
)

// readLicenses reads the texts that must accompany copies of the module, and
// recognizes the licenses.
func (m *module) readLicenses() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(m.dir, e.Name()))
		if err != nil {
			return err
		}
		m.texts = append(m.texts, text{e.Name(), data})
		if !licenseName.MatchString(e.Name()) {
			continue
		}
		for _, match := range licensecheck.Scan(data).Match {
			if !match.IsURL && !slices.Contains(m.licenses, match.ID) {
				m.licenses = append(m.licenses, match.ID)
			}
		}
	}
	if len(m.texts) == 0 {
		return fmt.Errorf("module %s@%s has no license, so that it cannot be distributed", m.path, m.version)
	}
	slices.Sort(m.licenses)
	return nil
}

// licenseTexts returns the licenses of all modules in the binary as one text.
func (b *binary) licenseTexts() []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "Lockstep is distributed under the Apache License, version 2.0: see LICENSE. The program\ncontains the following modules, each under a license of its own.\n")
	for _, m := range b.modules {
		for _, t := range m.texts {
			fmt.Fprintf(&w, "\n%s\n%s %s: %s\n%s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, t.name, strings.Repeat("=", 80), bytes.TrimSpace(t.data))
		}
	}
	return w.Bytes()
}
