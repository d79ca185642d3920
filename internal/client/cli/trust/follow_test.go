package trust

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/explain"
)

// bundles is an API that has only trust bundles, or fails.
type bundles struct {
	explain.Reader
	all []certificatesv1.ClusterTrustBundle
	err error
}

func (b *bundles) Resource(context.Context, schema.GroupKind) (certmanager.Resource, error) {
	return certmanager.Resource{Version: "v1beta1"}, nil
}

func (b *bundles) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	for i := range b.all {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&b.all[i])
		if err != nil {
			return err
		}
		list := into.(*unstructured.UnstructuredList)
		list.Items = append(list.Items, unstructured.Unstructured{Object: object})
	}
	return b.err
}

// A file is written when the roots change, and the command runs then, until it succeeds.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	out, ran, broken := filepath.Join(dir, "roots.pem"), filepath.Join(dir, "ran"), filepath.Join(dir, "broken")
	first, second := newRoot(t, "first", 1), newRoot(t, "second", 2)
	api := &bundles{all: []certificatesv1.ClusterTrustBundle{bundle("a", "", first)}}
	var messages bytes.Buffer
	f := &follower{api: api, Config: Config{
		Signer: "example.com/web", Output: "pem", Out: out, Stderr: &messages,
		Exec: "test ! -e " + broken + " && echo run >> " + ran,
	}}
	look := func(reason, roots, runs, message string) {
		t.Helper()
		messages.Reset()
		f.report(f.once(t.Context()))
		data, _ := os.ReadFile(out)
		lines, _ := os.ReadFile(ran)
		if string(data) != roots || strings.Count(string(lines), "run") != len(runs) || !strings.Contains(messages.String(), message) || message == "" && messages.Len() > 0 {
			t.Errorf("%s: %d bytes, ran %q, said %q", reason, len(data), lines, &messages)
		}
	}
	look("the first roots", first, "1", "Wrote "+out+": 1 roots of example.com/web")
	look("nothing has changed", first, "1", "")
	api.err = errors.New("away")
	look("the server is away", first, "1", "Error: reading the trust bundles of example.com/web: away")
	look("a problem is reported once", first, "1", "")
	api.err = nil
	look("it is back", first, "1", "Solved: ")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	api.all = append(api.all, bundle("b", "", second))
	look("the command fails after a change", second+first, "1", "Error: running --exec ")
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	look("it is tried again without another change", second+first, "12", "Solved: ")
	look("it is run once for a change", second+first, "12", "")
	api.all = nil
	look("bundles that are gone leave the file", second+first, "12", out+" stays unchanged")
}

// A signal ends the command without an error.
func TestFollowEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := Config{Signer: "example.com/web", Output: "pem", Out: filepath.Join(t.TempDir(), "roots.pem"), Every: 1, Stderr: &bytes.Buffer{}}
	if err := cfg.follow(ctx, &bundles{err: context.Canceled}); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	valid := Config{Output: "pem", Every: look * 5}
	for reason, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no file to keep":             {func(c *Config) { c.Watch = true }, "--out"},
		"a format that is not kept":   {func(c *Config) { c.Watch, c.Out, c.Output = true, "r", "table" }, "-o"},
		"a command without changes":   {func(c *Config) { c.Exec = "x" }, "--watch"},
		"looks that are too frequent": {func(c *Config) { c.Every = look }, "--every"},
		"nothing is wrong":            {func(c *Config) { c.Watch, c.Out, c.Exec = true, "r", "x" }, ""},
	} {
		cfg := valid
		tt.change(&cfg)
		if err := cfg.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
