package charts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"
)

var program = flag.String("certplane", "../../bin/certplane", "The program that is tested.")

// objects are decoded objects by kind, namespace and name.
type objects map[string]any

// manifests returns what "certplane manifests" prints.
func manifests(t *testing.T, arguments ...string) objects {
	t.Helper()
	path, err := filepath.Abs(*program)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, append([]string{"manifests"}, arguments...)...)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		t.Fatalf("certplane manifests %q: %v", arguments, err)
	}
	return decode(t, text)
}

// decode reads a stream of objects in YAML.
func decode(t *testing.T, text []byte) objects {
	t.Helper()
	all := objects{}
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var one map[string]any
		if err := kyaml.UnmarshalStrict(document, &one); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(one) == 0 {
			continue
		}
		meta := one["metadata"].(map[string]any)
		key := fmt.Sprint(one["kind"], " ", meta["namespace"], " ", meta["name"])
		if all[key] != nil {
			t.Fatalf("%s is there twice", key)
		}
		all[key] = normal(t, one)
	}
}

// normal returns an object in the form that is compared.
func normal(t *testing.T, one map[string]any) map[string]any {
	t.Helper()
	switch one["kind"] {
	case "Deployment": // quantities can be written in several ways
		data, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		var typed appsv1.Deployment
		if err := json.Unmarshal(data, &typed); err != nil {
			t.Fatal(err)
		}
		if data, err = json.Marshal(typed); err != nil {
			t.Fatal(err)
		}
		one = nil
		if err := json.Unmarshal(data, &one); err != nil {
			t.Fatal(err)
		}
	case "Role", "ClusterRole": // a set
		rules, _ := one["rules"].([]any)
		slices.SortFunc(rules, func(a, b any) int { return bytes.Compare(encoded(t, a), encoded(t, b)) })
		if len(rules) == 0 {
			delete(one, "rules")
		}
	}
	return one
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// same fails unless both are the same objects.
func same(t *testing.T, got, want objects) {
	t.Helper()
	if len(want) < 20 {
		t.Errorf("there are %d objects only", len(want))
	}
	for key := range maps.Keys(got) {
		if want[key] == nil {
			t.Errorf("%s: certplane manifests does not print it", key)
		}
	}
	for key, value := range want {
		if diff := cmp.Diff(value, got[key]); diff != "" {
			t.Errorf("%s (- certplane manifests, +):\n%.3000s", key, diff)
		}
	}
}
