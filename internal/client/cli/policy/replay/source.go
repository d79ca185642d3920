package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/pages"
)

// each calls take for each request of all sources in turn. It stops at an error of take.
func (cfg *Config) each(ctx context.Context, take func(raw) error) error {
	for _, name := range cfg.Logs {
		if err := eachLine(name, cfg.Stdin, func(r raw) error { r.decode = cfg.ofLog; return take(r) }); err != nil {
			return err
		}
	}
	for _, name := range cfg.Audits {
		if err := eachLine(name, cfg.Stdin, func(r raw) error { r.decode = cfg.ofAudit; return take(r) }); err != nil {
			return err
		}
	}
	objects := func(r raw) error { r.decode = cfg.ofObject; return take(r) }
	for _, dir := range cfg.Dirs {
		if err := eachInDir(dir, objects); err != nil {
			return err
		}
	}
	if !cfg.Stored {
		return nil
	}
	return eachStored(ctx, cfg.API, objects)
}

// maxLine is the maximum length of a line in bytes: a request has at most 36,500, its
// facts can be longer.
const maxLine = 16 << 20

// eachLine calls take for each line of a file that is not empty.
func eachLine(name string, stdin io.Reader, take func(raw) error) error {
	file := io.NopCloser(stdin)
	if name != manifest.Stdin {
		opened, err := os.Open(name)
		if err != nil {
			return err
		}
		file = opened
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		if line := lines.Bytes(); len(bytes.TrimSpace(line)) > 0 {
			if err := take(raw{where: fmt.Sprintf("%s:%d", name, n), data: bytes.Clone(line)}); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// eachInDir calls take for each object in the files of a folder.
func eachInDir(dir string, take func(raw) error) error {
	files, err := manifest.Files(dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		if filepath.Ext(name) == ".json" {
			err = eachInJSON(name, take)
		} else {
			err = eachInYAML(name, take)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachInYAML reads the whole file: YAML cannot be read in parts.
func eachInYAML(name string, take func(raw) error) error {
	documents, err := manifest.Read(name)
	if err != nil {
		return err
	}
	for _, d := range documents {
		if err := take(raw{where: fmt.Sprintf("%s:%d", name, d.Line), data: d.JSON}); err != nil {
			return err
		}
	}
	return nil
}

// eachInJSON reads objects one after another, and the items of lists one by one:
// a file may be larger than the memory.
func eachInJSON(name string, take func(raw) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for {
		err := nextJSON(decoder, func(data []byte) error {
			return take(raw{where: fmt.Sprintf("%s, byte %d", name, decoder.InputOffset()), data: data})
		})
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
}

// nextJSON reads the next object. Of a list, it calls take for the items; other
// objects are put together again.
func nextJSON(decoder *json.Decoder, take func([]byte) error) error {
	if token, err := decoder.Token(); err != nil {
		return err
	} else if token != json.Delim('{') {
		return fmt.Errorf("at byte %d: an object is needed", decoder.InputOffset())
	}
	object, isList := map[string]json.RawMessage{}, false
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if name == "items" {
			isList = true
			if err := eachItem(decoder, take); err != nil {
				return err
			}
			continue
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		object[name] = value
	}
	if _, err := decoder.Token(); err != nil || isList {
		return err
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return take(data)
}

func eachItem(decoder *json.Decoder, take func([]byte) error) error {
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return errors.Join(err, errors.New("items must be a list"))
	}
	for decoder.More() {
		var item json.RawMessage
		if err := decoder.Decode(&item); err != nil {
			return err
		}
		if err := take(item); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

// storedKinds are the kinds that an API can have, the newest version first.
var storedKinds = [][]schema.GroupVersionKind{
	{{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}},
	{{Group: "certificates.k8s.io", Version: "v1", Kind: "PodCertificateRequest"}, {Group: "certificates.k8s.io", Version: "v1beta1", Kind: "PodCertificateRequest"}},
	{{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequest"}},
}

// eachStored calls take for each request that an API has now.
func eachStored(ctx context.Context, api client.Reader, take func(raw) error) error {
	for _, versions := range storedKinds {
		for _, kind := range versions {
			served, err := eachOfKind(ctx, api, kind, take)
			if err != nil {
				return fmt.Errorf("listing objects of the kind %s: %w", kind.Kind, err)
			}
			if served {
				break
			}
		}
	}
	return nil
}

func eachOfKind(ctx context.Context, api client.Reader, kind schema.GroupVersionKind, take func(raw) error) (served bool, err error) {
	empty := &unstructured.UnstructuredList{}
	empty.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = pages.Each(ctx, api, empty, func(list *unstructured.UnstructuredList) error {
		for i := range list.Items {
			item := &list.Items[i]
			data, err := item.MarshalJSON()
			if err != nil {
				return err
			}
			if err := take(raw{where: strings.Trim(kind.Kind+" "+item.GetNamespace()+"/"+item.GetName(), "/"), data: data}); err != nil {
				return err
			}
		}
		return nil
	})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	return true, err
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}
