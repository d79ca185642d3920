package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is an unprivileged user that exists neither in the image nor on hosts.
const imageUser = "65532:65532"

// writeImage writes an image for each platform of Linux, as one archive of an
// image layout: https://github.com/opencontainers/image-spec/blob/main/image-layout.md.
func (r release) writeImage(programs []program) error {
	blobs := map[string][]byte{}
	platforms := imagespec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imagespec.MediaTypeImageIndex}
	for _, p := range programs {
		if p.os != "linux" {
			continue
		}
		manifest, err := r.platformImage(blobs, p)
		if err != nil {
			return err
		}
		platforms.Manifests = append(platforms.Manifests, manifest)
	}
	all, err := addJSON(blobs, imagespec.MediaTypeImageIndex, platforms)
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{imagespec.AnnotationRefName: imageTag(r.version)}
	index, err := json.Marshal(imagespec.Index{Versioned: platforms.Versioned, MediaType: imagespec.MediaTypeImageIndex, Manifests: []imagespec.Descriptor{all}})
	if err != nil {
		return err
	}
	layout, err := json.Marshal(imagespec.ImageLayout{Version: imagespec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	files := []file{{imagespec.ImageIndexFile, index, 0o644}, {imagespec.ImageLayoutFile, layout, 0o644}}
	for name, data := range blobs {
		files = append(files, file{name, data, 0o644})
	}
	data, err := archive("", files, r.time)
	if err != nil {
		return err
	}
	return os.WriteFile(r.name("_image.tar"), data, 0o644)
}

// imageTag returns the version as "certplane manifests" names the image.
func imageTag(version string) string { return strings.ReplaceAll(version, "+", "-") }

// platformImage adds the image for one platform to the blobs: the program and
// the roots of public CAs, for webhook signers and ACME servers.
func (r release) platformImage(blobs map[string][]byte, p program) (imagespec.Descriptor, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return imagespec.Descriptor{}, err
	}
	var licenses []byte
	for _, f := range r.common {
		if f.name == "THIRD_PARTY_LICENSES" {
			licenses = f.data
		}
	}
	tarball, err := archive("", []file{
		{"certplane", binary, 0o755},
		{"THIRD_PARTY_LICENSES", licenses, 0o644},
		{"etc/ssl/certs/ca-certificates.crt", publicRoots(), 0o644},
	}, r.time)
	if err != nil {
		return imagespec.Descriptor{}, err
	}
	compressed, err := compress(tarball)
	if err != nil {
		return imagespec.Descriptor{}, err
	}
	layer := add(blobs, imagespec.MediaTypeImageLayerGzip, compressed)
	target := imagespec.Platform{OS: p.os, Architecture: p.arch}
	config, err := addJSON(blobs, imagespec.MediaTypeImageConfig, imagespec.Image{
		Created: new(r.time), Platform: target,
		Config: imagespec.ImageConfig{User: imageUser, Entrypoint: []string{"/certplane"}, Labels: r.annotations(p)},
		RootFS: imagespec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(tarball)}},
	})
	if err != nil {
		return imagespec.Descriptor{}, err
	}
	manifest, err := addJSON(blobs, imagespec.MediaTypeImageManifest, imagespec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imagespec.MediaTypeImageManifest,
		Config: config, Layers: []imagespec.Descriptor{layer}, Annotations: r.annotations(p),
	})
	manifest.Platform = &target
	return manifest, err
}

func (r release) annotations(p program) map[string]string {
	all := map[string]string{
		imagespec.AnnotationTitle: "certplane", imagespec.AnnotationVersion: r.version, imagespec.AnnotationLicenses: "Apache-2.0",
		imagespec.AnnotationSource: "https://github.com/certplane/certplane", imagespec.AnnotationCreated: r.time.Format(time.RFC3339),
	}
	for _, s := range p.info.Settings {
		if s.Key == "vcs.revision" {
			all[imagespec.AnnotationRevision] = s.Value
		}
	}
	return all
}

// publicRoots returns those roots that are trusted without conditions: a file of
// certificates cannot express one.
func publicRoots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

func addJSON(blobs map[string][]byte, mediaType string, value any) (imagespec.Descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return imagespec.Descriptor{}, err
	}
	return add(blobs, mediaType, data), nil
}

// add adds data to the blobs, under its digest.
func add(blobs map[string][]byte, mediaType string, data []byte) imagespec.Descriptor {
	sum := digest.FromBytes(data)
	blobs[imagespec.ImageBlobsDir+"/"+sum.Algorithm().String()+"/"+sum.Encoded()] = data
	return imagespec.Descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(data))}
}
