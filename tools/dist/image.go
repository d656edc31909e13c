package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	"github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group that containers run as: one that owns nothing else.
const imageUser = 65532

// imageState has the state of everything that runs in a container, and is a volume.
const imageState = "/var/lib/lockstep"

// An image is the image of one platform: the blobs it consists of, by digest.
type image struct {
	target
	manifest v1.Descriptor
	config   digest.Digest
	layers   []digest.Digest
	blobs    map[digest.Digest][]byte
}

// newImage returns the image of a platform. It has the program, certificates, a
// configuration file and the directory of the state, and nothing else.
func (r *release) newImage(b *binary) (image, error) {
	base, err := baseFiles()
	if err != nil {
		return image{}, err
	}
	layers := []struct {
		origin string
		files  []file
	}{
		{"certificates, user and configuration", base},
		{"program and licenses", []file{
			{name: "usr/", mode: 0o755}, {name: "usr/bin/", mode: 0o755},
			{name: "usr/bin/lockstep", mode: 0o755, data: b.program},
			{name: "usr/share/", mode: 0o755}, {name: "usr/share/doc/", mode: 0o755}, {name: "usr/share/doc/lockstep/", mode: 0o755},
			{name: "usr/share/doc/lockstep/licenses.txt", mode: 0o644, data: b.licenseTexts()},
		}},
	}
	m := image{target: b.target, blobs: map[digest.Digest][]byte{}}
	config := v1.Image{
		Created: &r.time, Platform: v1.Platform{OS: b.system, Architecture: b.processor},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.ImageConfig{
			User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
			ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Env:          []string{"PATH=/usr/bin", "XDG_STATE_HOME=/var/lib", "LOCKSTEP_LISTEN=0.0.0.0:8080"},
			Entrypoint:   []string{"/usr/bin/lockstep"},
			Cmd:          []string{"serve", "--config", "/etc/lockstep/lockstep.yaml"},
			Volumes:      map[string]struct{}{imageState: {}},
			WorkingDir:   imageState,
			StopSignal:   "SIGTERM",
			Labels:       r.labels(),
		},
	}
	manifest := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Annotations: r.labels()}
	for _, l := range layers {
		plain, err := tarred(l.files, r.time)
		if err != nil {
			return image{}, err
		}
		compressed, err := gzipped(plain)
		if err != nil {
			return image{}, err
		}
		d := m.add(v1.MediaTypeImageLayerGzip, compressed)
		m.layers = append(m.layers, d.Digest)
		manifest.Layers = append(manifest.Layers, d)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(plain))
		config.History = append(config.History, v1.History{Created: &r.time, CreatedBy: "lockstep tools/dist: " + l.origin})
	}
	if manifest.Config, err = m.addJSON(v1.MediaTypeImageConfig, config); err != nil {
		return image{}, err
	}
	m.config = manifest.Config.Digest
	if m.manifest, err = m.addJSON(v1.MediaTypeImageManifest, manifest); err != nil {
		return image{}, err
	}
	m.manifest.Platform = &v1.Platform{OS: b.system, Architecture: b.processor}
	return m, nil
}

// labels describe an image.
func (r *release) labels() map[string]string {
	labels := map[string]string{
		v1.AnnotationTitle: "lockstep", v1.AnnotationVersion: r.version, v1.AnnotationLicenses: "Apache-2.0",
		v1.AnnotationDescription: "Publishes collections of web resources, and maintains exact copies of them (ResourceSync)",
	}
	if r.commit != "" {
		labels[v1.AnnotationRevision] = r.commit
	}
	return labels
}

// baseFiles returns the files of an image besides the program.
func baseFiles() ([]file, error) {
	config, err := os.ReadFile("packaging/lockstep.yaml")
	if err != nil {
		return nil, err
	}
	user := fmt.Sprintf("lockstep:x:%d:%d:Lockstep:%s:/nonexistent\n", imageUser, imageUser, imageState)
	return []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nlockstep:x:%d:\n", imageUser)},
		{name: "etc/lockstep/", mode: 0o755},
		{name: "etc/lockstep/lockstep.yaml", mode: 0o644, data: config},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/nonexistent\n" + user)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates()},
		{name: "tmp/", mode: 0o1777},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/lockstep/", mode: 0o755, uid: imageUser},
		{name: "var/lib/lockstep/files/", mode: 0o755, uid: imageUser},
	}, nil
}

// certificates returns Mozilla's root certificates, in the version that go.mod fixes.
// Those that are trusted under conditions only are left out, since a file of
// certificates cannot state conditions.
func certificates() []byte {
	var b strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return []byte(b.String())
}

// add adds a blob.
func (m *image) add(mediaType string, data []byte) v1.Descriptor {
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	m.blobs[d.Digest] = data
	return d
}

func (m *image) addJSON(mediaType string, value any) (v1.Descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return m.add(mediaType, data), nil
}

// composeFile runs the image.
const composeFile = "compose.yaml"

// writeImages writes an archive for each image, which `docker load` and `podman load`
// read, one with all of them, from which `skopeo copy` fills a registry, and the file
// for Compose.
func (r *release) writeImages(images []image) error {
	for _, m := range images {
		if err := r.writeLayout(r.name(m.system+"_"+m.processor+"_image.tar"), []image{m}); err != nil {
			return err
		}
	}
	if len(images) > 1 {
		if err := r.writeLayout(r.name("image.tar"), images); err != nil {
			return err
		}
	}
	compose, err := os.ReadFile("packaging/" + composeFile)
	if err != nil {
		return err
	}
	return r.write(composeFile, compose)
}

// writeLayout writes images as an OCI image layout, and a single one also as an archive
// of Docker.
func (r *release) writeLayout(name string, images []image) error {
	var all image
	all.blobs = map[digest.Digest][]byte{}
	list := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Annotations: r.labels()}
	for _, m := range images {
		maps.Copy(all.blobs, m.blobs)
		list.Manifests = append(list.Manifests, m.manifest)
	}
	entry := list.Manifests[0]
	if len(images) > 1 {
		var err error
		if entry, err = all.addJSON(v1.MediaTypeImageIndex, list); err != nil {
			return err
		}
	}
	tag := strings.ReplaceAll(r.version, "+", "-") // a tag has no plus sign
	entry.Annotations = map[string]string{v1.AnnotationRefName: tag, "io.containerd.image.name": "docker.io/library/lockstep:" + tag}
	contents := map[string]any{
		v1.ImageLayoutFile: v1.ImageLayout{Version: v1.ImageLayoutVersion},
		v1.ImageIndexFile:  v1.Index{Versioned: list.Versioned, MediaType: list.MediaType, Manifests: []v1.Descriptor{entry}},
	}
	if len(images) == 1 {
		contents["manifest.json"] = dockerManifest(&images[0], tag)
	}
	files := []file{{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}}
	for _, d := range slices.Sorted(maps.Keys(all.blobs)) {
		files = append(files, file{name: blobPath(d), mode: 0o644, data: all.blobs[d]})
	}
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		data, err := json.Marshal(contents[name])
		if err != nil {
			return err
		}
		files = append(files, file{name: name, mode: 0o644, data: data})
	}
	data, err := tarred(files, r.time)
	if err != nil {
		return err
	}
	return r.write(name, data)
}

// blobPath returns the place of a blob in an image layout.
func blobPath(d digest.Digest) string { return "blobs/" + d.Algorithm().String() + "/" + d.Encoded() }

// dockerManifest returns what `docker load` looks for in an archive.
func dockerManifest(m *image, tag string) any {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	e := entry{Config: blobPath(m.config), RepoTags: []string{"lockstep:" + tag, "lockstep:latest"}}
	for _, l := range m.layers {
		e.Layers = append(e.Layers, blobPath(l))
	}
	return []entry{e}
}
