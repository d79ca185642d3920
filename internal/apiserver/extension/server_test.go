package extension_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
)

// scenario is a kind and the test that uses it.
type scenario struct {
	kind *apiextensionsv1.CustomResourceDefinition
	test func(*testing.T, *apiextensionsv1.CustomResourceDefinition)
}

func TestServer(t *testing.T) {
	t.Parallel()
	w := start(t)
	scenarios := map[string]scenario{
		"objects":    {widgets(t), w.testObjects},
		"formats":    {definition("mugs", "Mug", "formats.example.com", withStatus), w.testFormats},
		"columns":    {trays(), w.testColumns},
		"conversion": {paints(t), w.testConversion},
		"services":   {calls(), w.testConversionByService},
		"deletion":   {definition("fads", "Fad", "deletion.example.com"), w.testDeletion},
		"encoding":   {definition("texts", "Text", "encoding.example.com"), w.testStoredAsJSON},
		"restart":    {definition("keepsakes", "Keepsake", "restart.example.com"), w.testRestart},
	}
	// The library accepts no object of a kind in its first two seconds: wait
	// once for all of them.
	for _, s := range scenarios {
		w.define(t, s.kind)
	}
	for _, name := range []string{"objects", "formats", "columns", "conversion", "services", "deletion", "encoding", "restart"} {
		t.Run(name, func(t *testing.T) { scenarios[name].test(t, scenarios[name].kind) })
	}
}

func widgets(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	return definition("widgets", "Widget", "objects.example.com", withSchema(t, `
type: object
properties:
  spec:
    type: object
    properties:
      size: {type: integer, default: 3}
      color: {type: string}
    x-kubernetes-validations:
    - {rule: "self.size < 10", message: "widgets are small"}
  status:
    type: object
    properties:
      ready: {type: integer}
`), func(crd *apiextensionsv1.CustomResourceDefinition) {
		v1 := &crd.Spec.Versions[0]
		ready := ".status.ready"
		v1.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.color"}}
		v1.Subresources = &apiextensionsv1.CustomResourceSubresources{
			Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ready},
		}
	})
}

func withStatus(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
}

// testFormats checks that objects in a format that custom resources do not have
// are refused.
func (w *world) testFormats(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	path := "/apis/" + crd.Spec.Group + "/v1/" + crd.Spec.Names.Plural
	for _, test := range []struct {
		verb, path, format, reason string
	}{
		{http.MethodPost, path, runtime.ContentTypeProtobuf, "as the library answers other formats"},
		{http.MethodPost, path, runtime.ContentTypeProtobuf + "; charset=x", "the parameters of the type do not matter"},
		{http.MethodPut, path + "/red", runtime.ContentTypeProtobuf, "an update"},
		{http.MethodPut, path + "/red/status", runtime.ContentTypeProtobuf, "an update of the status"},
		{http.MethodPost, path, "text/html", "the library's answer"},
	} {
		call := w.admin.CoreV1().RESTClient().Verb(test.verb).AbsPath(test.path).SetHeader("Content-Type", test.format).Body([]byte("k8s\x00"))
		err := call.Do(t.Context()).Error()
		if !apierrors.IsUnsupportedMediaType(err) || !strings.Contains(err.Error(), "accepted media types include: application/json") {
			t.Errorf("%s %s of %s: %v (%s)", test.verb, test.path, test.format, err, test.reason)
		}
	}
}

// testObjects checks what a schema and subresources do to objects.
func (w *world) testObjects(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	widgets := w.resource(crd, "v1")

	red := create(t, widgets, object(t, `{apiVersion: objects.example.com/v1, kind: Widget, metadata: {name: red}, spec: {color: red, weight: 1}, status: {ready: 1}}`))
	if got := at(red, "spec"); !cmp.Equal(got, map[string]any{"size": int64(3), "color": "red"}) {
		t.Errorf("spec = %v, want the default size and no unknown field", got)
	}
	if got := at(red, "status"); got != nil {
		t.Errorf("create has written the status %v", got)
	}
	blue := object(t, `{apiVersion: objects.example.com/v1, kind: Widget, metadata: {name: blue}, spec: {color: blue, size: 12}}`)
	_, err := widgets.Create(t.Context(), blue, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "widgets are small") {
		t.Errorf("creating a widget of size 12: %v", err)
	}

	red.Object["status"] = map[string]any{"ready": int64(2)}
	if red, err = widgets.UpdateStatus(t.Context(), red, metav1.UpdateOptions{}); err != nil || at(red, "status", "ready") != int64(2) {
		t.Errorf("writing the status: %v, %v", at(red, "status"), err)
	}
	scale, err := widgets.Patch(t.Context(), "red", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}, "scale")
	if err != nil || at(scale, "status", "replicas") != int64(2) {
		t.Errorf("scaling: %v, %v", scale, err)
	}

	applied, err := widgets.Apply(t.Context(), "blue", object(t, `{apiVersion: objects.example.com/v1, kind: Widget, metadata: {name: blue}, spec: {color: blue}}`),
		metav1.ApplyOptions{FieldManager: "one"})
	if err != nil || at(applied, "spec", "size") != int64(3) {
		t.Fatalf("applying: %v, %v", applied, err)
	}
	_, err = widgets.Apply(t.Context(), "blue", object(t, `{apiVersion: objects.example.com/v1, kind: Widget, metadata: {name: blue}, spec: {color: green}}`),
		metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) {
		t.Errorf("a second applier took a field over: %v", err)
	}

	list, err := widgets.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"})
	if err != nil || len(list.Items) != 1 || at(&list.Items[0], "spec", "size") != int64(5) {
		t.Errorf("red widgets: %v, %v", list, err)
	}
	watch, err := widgets.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red", ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if err := widgets.Delete(t.Context(), "red", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := <-watch.ResultChan(); event.Type != "DELETED" {
		t.Errorf("watched %+v, want the deletion", event)
	}
}

func trays() *apiextensionsv1.CustomResourceDefinition {
	return definition("trays", "Tray", "columns.example.com", func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Depth", Type: "integer", JSONPath: ".spec.depth"},
		}
	})
}

func (w *world) testColumns(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	create(t, w.resource(crd, "v1"), object(t, `{apiVersion: columns.example.com/v1, kind: Tray, metadata: {name: deep}, spec: {depth: 7}}`))
	raw, err := w.admin.Discovery().RESTClient().Get().AbsPath("/apis/columns.example.com/v1/trays/deep").
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.ColumnDefinitions) != 2 || table.ColumnDefinitions[1].Name != "Depth" || table.Rows[0].Cells[1] != float64(7) {
		t.Errorf("table = %s", raw)
	}
}

// testDeletion deletes a definition of which an object exists.
func (w *world) testDeletion(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	create(t, w.resource(crd, "v1"), object(t, `{apiVersion: deletion.example.com/v1, kind: Fad, metadata: {name: yo-yo}}`))
	w.checkDocumented(t, crd, true)

	if err := w.crds.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the definition is gone", func() bool {
		_, err := w.crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), crd.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if keys := w.stored(t, "/registry/deletion.example.com/"); len(keys) > 0 {
		t.Errorf("left in the store: %v", keys)
	}
	w.checkDocumented(t, crd, false)
	if _, err := w.resource(crd, "v1").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("listing what is not defined any more: %v", err)
	}
}

// checkDocumented waits until every document contains, or does not contain, a
// kind.
func (w *world) checkDocumented(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, want bool) {
	t.Helper()
	group, kind := crd.Spec.Group, crd.Spec.Names.Kind
	for path, accept := range map[string]string{
		"/apis":       "application/json",
		"/apis/":      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
		"/openapi/v3": "application/json",
		"/openapi/v2": "application/json",
	} {
		apitest.Eventually(t, path+" is up to date about "+crd.Name, func() bool {
			raw, err := w.admin.Discovery().RESTClient().Get().AbsPath(strings.TrimSuffix(path, "/")).SetHeader("Accept", accept).DoRaw(t.Context())
			if err != nil {
				t.Fatalf("reading %s: %v", path, err)
			}
			if !strings.Contains(string(raw), "certificates.k8s.io") {
				t.Fatalf("%s has forgotten the built-in kinds", path)
			}
			return strings.Contains(string(raw), group) == want
		})
	}
	raw, err := w.admin.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/" + group + "/v1").DoRaw(t.Context())
	if err != nil || strings.Contains(string(raw), `"kind":"`+kind+`"`) != want {
		t.Errorf("the schema of %s: %q, %v", kind, raw, err)
	}
}

// stored returns the values under a prefix of the server's own store.
func (w *world) stored(t *testing.T, prefix string) map[string]string {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + w.Config.DataDir + "/etcd/client.sock"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got, err := client.Get(context.WithoutCancel(t.Context()), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, kv := range got.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	return values
}

// testStoredAsJSON sends CBOR, which must not be stored.
func (w *world) testStoredAsJSON(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	create(t, w.resource(crd, "v1"), object(t, `{apiVersion: encoding.example.com/v1, kind: Text, metadata: {name: one}}`))
	_, err := w.admin.Discovery().RESTClient().Patch(types.ApplyCBORPatchType).AbsPath("/apis/encoding.example.com/v1/texts/one").
		Param("fieldManager", "test").
		// {"apiVersion": "encoding.example.com/v1", "kind": "Text", "spec": {}} (RFC 8949)
		Body([]byte("\xd9\xd9\xf7\xa3\x4aapiVersion\x57encoding.example.com/v1\x44kind\x44Text\x44spec\xa0")).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("applying CBOR: %v", err)
	}
	stored := w.stored(t, "/registry/encoding.example.com/texts/")
	if value := stored["/registry/encoding.example.com/texts/one"]; !strings.HasPrefix(value, "{") || !strings.Contains(value, `"spec":{}`) {
		t.Errorf("stored: %q", stored)
	}
	if _, ok := w.stored(t, "/registry/apiextensions.k8s.io/customresourcedefinitions/")["/registry/apiextensions.k8s.io/customresourcedefinitions/"+crd.Name]; !ok {
		t.Error("the definition is not where kube-apiserver keeps it")
	}
}

// testRestart checks that definitions are served as soon as a restarted server
// is ready.
func (w *world) testRestart(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	create(t, w.resource(crd, "v1"), object(t, `{apiVersion: restart.example.com/v1, kind: Keepsake, metadata: {name: ring}}`))
	w.Restart(t)
	w.connect(t)
	if _, err := w.resource(crd, "v1").Get(t.Context(), "ring", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := w.admin.Discovery().ServerResourcesForGroupVersion("restart.example.com/v1"); err != nil {
		t.Error(err)
	}
	w.checkDocumented(t, crd, true)
}
