package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packageFile describes the packages for Linux.
const packageFile = "packaging/nfpm.yaml"

// writePackages writes the packages for Debian and RPM.
func (r *release) writePackages(b *binary, texts map[string][]byte) error {
	dir := filepath.Dir(b.path)
	if err := stagePackageFiles(dir, b, texts); err != nil {
		return err
	}
	variables := map[string]string{"VERSION": r.version, "ARCH": b.processor, "STAGE": dir}
	for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
		config, err := nfpm.ParseFileWithEnvMapping(packageFile, func(name string) string { return variables[name] })
		if err != nil {
			return fmt.Errorf("read %s: %w", packageFile, err)
		}
		info, err := config.Get(format)
		if err != nil {
			return fmt.Errorf("read %s: %w", packageFile, err)
		}
		info = nfpm.WithDefaults(info)
		info.MTime = r.time
		var w bytes.Buffer
		if err := packager.Package(info, &w); err != nil {
			return fmt.Errorf("write the .%s for %s: %w", format, b.target, err)
		}
		if err := r.write(packager.ConventionalFileName(info), w.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// stagePackageFiles writes the files that packageFile names below STAGE.
func stagePackageFiles(dir string, b *binary, texts map[string][]byte) error {
	files := map[string][]byte{"licenses.txt": b.licenseTexts()}
	for name, data := range texts {
		if strings.HasPrefix(name, "man/") || name == "CHANGELOG.md" {
			compressed, err := gzipped(data)
			if err != nil {
				return err
			}
			name, data = name+".gz", compressed
		}
		files[name] = data
	}
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
