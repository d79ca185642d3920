package lean_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/run/server"
)

// The same kinds are defined in two groups, of which only one is served by the
// package. Both names are of the same length, as some texts are cut off.
const (
	leanGroup    = "lean.example.com"
	libraryGroup = "full.example.com"
)

// plurals of the kinds, and the groups that cert-manager has them in.
var kinds = map[string]string{"certificates": "cert-manager.io", "issuers": "cert-manager.io", "clusterissuers": "cert-manager.io", "challenges": "acme.cert-manager.io"}

type world struct {
	*apitest.Server
	admin *rest.Config
	crds  crdclient.Interface
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{Server: apitest.Start(t, func(cfg *server.Config) {
		for plural := range kinds {
			cfg.API.Lean = append(cfg.API.Lean, plural+"."+leanGroup)
		}
	})}
	w.admin = w.Admin(t)
	var err error
	if w.crds, err = crdclient.NewForConfig(w.admin); err != nil {
		t.Fatal(err)
	}
	for plural, group := range kinds {
		for _, twin := range []string{leanGroup, libraryGroup} {
			w.define(t, definition(t, plural, group, twin))
		}
	}
	return w
}

// definition returns a definition of ours, in another group.
func definition(t *testing.T, plural, from, to string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	own, err := crds.Read(plural + "." + from)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(own.Object, crd); err != nil {
		t.Fatal(err)
	}
	crd.Name, crd.Spec.Group = plural+"."+to, to
	names := &crd.Spec.Names
	names.ShortNames, names.Categories = nil, nil
	return crd
}

// define stores crd and waits until it is served.
func (w *world) define(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	apitest.Define(t, w.crds, crd)
	apitest.Eventually(t, crd.Name+" is served", func() bool {
		return w.send(t, call{path: "/apis/" + crd.Spec.Group + "/v1/" + crd.Spec.Names.Plural}).code == http.StatusOK
	})
}

// call is a request. GROUP in its path and body is the group of the kind, and
// VERSION the resource version that the last answer had.
type call struct {
	name         string
	method, path string // default: GET
	body         string
	format       string // of the body; default: JSON
	accept       string
}

type answer struct {
	code   int
	header http.Header
	body   string
}

func (w *world) send(t *testing.T, c call) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := rest.HTTPClientFor(w.admin)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, c.method, w.URL+c.path, bytes.NewReader([]byte(c.body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": c.format, "Accept": c.accept} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// twin is the same conversation with one of the two groups.
type twin struct {
	*world
	group   string
	version string // the last resource version
}

var resourceVersion = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

func (t *twin) say(test *testing.T, c call) answer {
	test.Helper()
	fill := strings.NewReplacer("GROUP", t.group, "VERSION", t.version)
	c.path, c.body = fill.Replace(c.path), fill.Replace(c.body)
	got := t.send(test, c)
	if versions := resourceVersion.FindStringSubmatch(got.body); versions != nil && c.method != "" {
		t.version = versions[1]
	}
	return got
}

// masks hide what differs between any two requests.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(lean|full)\.example(\.com?)?`), "GROUP"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`(resourceVersion[^0-9]{1,12})\d+`), "${1}VERSION"},
	{regexp.MustCompile(`"continue":"[^"]+"`), `"continue":"TOKEN"`},
	{regexp.MustCompile(`"\d+s"\]`), `"AGE"]`},
	{regexp.MustCompile(`,"\d+s",`), `,"AGE",`},
}

func mask(text string) string {
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.with)
	}
	return text
}

// comparable returns what of an answer has to be the same in both groups.
func comparable(a answer) map[string]any {
	out := map[string]any{"code": a.code, "Content-Type": a.header.Get("Content-Type")}
	for _, warning := range a.header.Values("Warning") {
		out["Warning: "+mask(warning)] = true
	}
	var lines []any
	for line := range strings.Lines(mask(a.body)) {
		var value any
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			lines = nil
			break
		}
		lines = append(lines, value)
	}
	switch {
	case strings.HasSuffix(a.header.Get("Content-Type"), "protobuf"):
		out["body"] = len(a.body) // resource versions and times differ
	case lines == nil:
		out["body"] = mask(a.body)
	default:
		out["body"] = sorted(lines)
	}
	return out
}

// sorted returns the lines with sorted errors: the library does not check fields in
// any order. Entries of managed fields are sorted, too: their order is that of their
// seconds, and a second may pass in one of the conversations only.
func sorted(lines []any) []any {
	byText := func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	for _, line := range lines {
		for _, managed := range lists("managedFields", line) {
			slices.SortFunc(managed, byText)
		}
		status, _ := line.(map[string]any)
		details, _ := status["details"].(map[string]any)
		causes, _ := details["causes"].([]any)
		if len(causes) < 2 {
			continue
		}
		slices.SortFunc(causes, byText)
		delete(status, "message") // it has all causes
	}
	return lines
}

// lists returns all lists with a key, at any depth.
func lists(key string, in any) (found [][]any) {
	switch in := in.(type) {
	case []any:
		for _, item := range in {
			found = append(found, lists(key, item)...)
		}
	case map[string]any:
		for k, value := range in {
			if list, ok := value.([]any); ok && k == key {
				found = append(found, list)
				continue
			}
			found = append(found, lists(key, value)...)
		}
	}
	return found
}
