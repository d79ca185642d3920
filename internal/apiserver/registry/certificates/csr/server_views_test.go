package csr_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The views of requests for clients that do not need all of their content:
// tables and metadata.
func TestServerViews(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("rows", w.testRows)
	t.Run("columns", w.testColumns)
	t.Run("tables by endpoint", w.testTableEndpoints)
	t.Run("objects in tables", w.testTableObjects)
	t.Run("table of a page", w.testTableOfPage)
	t.Run("table watch", w.testTableWatch)
	t.Run("metadata", w.testPartialMetadata)
}

const (
	asTable    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	asMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asList     = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// read decodes JSON.
func read[T any](t testing.TB, a answer) T {
	t.Helper()
	var out T
	if a.code != http.StatusOK {
		t.Fatalf("%d %s", a.code, a.body)
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (w world) testRows(t *testing.T) {
	user := w.create(t, "user").Spec.Username
	issued := certificate(chain(t))
	both := func(a, b edit) edit { return func(c *csr) { a(c); b(c) } }
	for i, tc := range []struct {
		edit                        edit
		signer, duration, condition string
	}{
		{func(*csr) {}, signerName, "<none>", "Pending"},
		{signer("kubernetes.io/x"), "kubernetes.io/x", "<none>", "Pending"},
		{expires(608400), signerName, "7d1h", "Pending"},
		{expires(600), signerName, "10m", "Pending"},
		{expires(3600), signerName, "60m", "Pending"},
		{expires(86400), signerName, "24h", "Pending"},
		{expires(31536000), signerName, "365d", "Pending"},
		{timed("", "Approved"), signerName, "<none>", "Approved"},
		{timed("", "Denied"), signerName, "<none>", "Denied"},
		{timed("", "Approved", "Denied"), signerName, "<none>", "Denied"},
		{timed("", "Custom"), signerName, "<none>", "Pending"},
		{timed("", "Failed"), signerName, "<none>", "Pending,Failed"},
		{timed("", "Failed", "Approved"), signerName, "<none>", "Approved,Failed"},
		{issued, signerName, "<none>", "Pending,Issued"},
		{both(timed("", "Approved"), issued), signerName, "<none>", "Approved,Issued"},
		{both(timed("", "Approved", "Failed"), issued), signerName, "<none>", "Approved,Failed,Issued"},
	} {
		name := fmt.Sprintf("row-%d", i)
		w.plant(t, name, tc.edit, func(c *csr) { c.Spec.Username = user })
		table := read[metav1.Table](t, w.call(t, call{path: v1Path + "/" + name, accept: asTable}))
		if len(table.Rows) != 1 || len(table.Rows[0].Cells) != 6 {
			t.Fatalf("rows are %v", table.Rows)
		}
		cells := table.Rows[0].Cells
		if age, _ := cells[1].(string); !strings.HasSuffix(age, "d") && !strings.Contains(age, "y") {
			t.Errorf("%s: age is %v", name, cells[1])
		}
		want := []any{name, cells[1], tc.signer, user, tc.duration, tc.condition}
		if diff := cmp.Diff(want, cells); diff != "" {
			t.Errorf("cells (-want +got):\n%s", diff)
		}
	}
}

func (w world) testColumns(t *testing.T) {
	got := read[metav1.Table](t, w.call(t, call{path: v1Path, accept: asTable})).ColumnDefinitions
	for i := range got {
		if got[i].Description == "" {
			t.Errorf("column %s has no description", got[i].Name)
		}
		got[i].Description = ""
	}
	want := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Age", Type: "string"},
		{Name: "SignerName", Type: "string"},
		{Name: "Requestor", Type: "string"},
		{Name: "RequestedDuration", Type: "string"},
		{Name: "Condition", Type: "string"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

// The resource and /status have tables, /approval has none.
func (w world) testTableEndpoints(t *testing.T) {
	obj := w.create(t, "endpoints")
	for path, want := range map[string]int{
		mainEndpoint.path(obj.Name):                                          http.StatusOK,
		statusEndpoint.path(obj.Name):                                        http.StatusOK,
		approvalEndpoint.path(obj.Name):                                      http.StatusNotAcceptable,
		strings.Replace(mainEndpoint.path(obj.Name), "/v1/", "/v1beta1/", 1): http.StatusOK,
		v1Path:  http.StatusOK,
		v1beta1: http.StatusOK,
	} {
		got := w.call(t, call{path: path, accept: asTable})
		if got.code != want {
			t.Errorf("%s: %d, want %d: %s", path, got.code, want, got.body)
		}
		if fallback := w.call(t, call{path: path, accept: asTable + ", application/json"}); fallback.code != http.StatusOK {
			t.Errorf("%s, or JSON: %d", path, fallback.code)
		}
	}
	for _, accept := range []string{
		"application/json;as=Table;g=meta.k8s.io;v=v1beta1",
		"application/yaml;as=Table;g=meta.k8s.io;v=v1",
	} {
		if got := w.call(t, call{path: v1Path, accept: accept}); got.code != http.StatusOK {
			t.Errorf("%s: %d %s", accept, got.code, got.body)
		}
	}
}

// Each row can carry its object, its metadata, or nothing.
func (w world) testTableObjects(t *testing.T) {
	obj := w.create(t, "objects")
	for query, want := range map[string]string{
		"":                        "PartialObjectMetadata",
		"?includeObject=Metadata": "PartialObjectMetadata",
		"?includeObject=Object":   "CertificateSigningRequest",
		"?includeObject=None":     "",
	} {
		table := read[metav1.Table](t, w.call(t, call{path: v1Path + "/objects" + query, accept: asTable}))
		if table.ResourceVersion != obj.ResourceVersion {
			t.Errorf("%q: resourceVersion is %q", query, table.ResourceVersion)
		}
		raw := table.Rows[0].Object.Raw
		if want == "" {
			if len(raw) != 0 && string(raw) != "null" {
				t.Errorf("%q: object is %s", query, raw)
			}
			continue
		}
		var got metav1.PartialObjectMetadata
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if got.Kind != want || got.UID != obj.UID {
			t.Errorf("%q: object is %s", query, raw)
		}
	}
}

func (w world) testTableOfPage(t *testing.T) {
	for _, name := range []string{"page-b", "page-a", "page-c"} {
		w.create(t, name, labels("page", "yes"))
	}
	table := read[metav1.Table](t, w.call(t, call{path: v1Path + "?limit=2&labelSelector=page", accept: asTable}))
	if len(table.Rows) != 2 || table.Rows[0].Cells[0] != "page-a" || table.Rows[1].Cells[0] != "page-b" {
		t.Errorf("rows are %v", table.Rows)
	}
	if table.Continue == "" || table.ResourceVersion == "" {
		t.Errorf("list metadata is %v", table.ListMeta)
	}
}

func (w world) testTableWatch(t *testing.T) {
	w.create(t, "table-watch")
	got := w.firstEvent(t, v1Path+"?watch=1&fieldSelector=metadata.name%3Dtable-watch", asTable)
	var event struct {
		Type   string
		Object metav1.Table
	}
	if err := json.NewDecoder(strings.NewReader(string(got.body))).Decode(&event); err != nil {
		t.Fatal(err)
	}
	if event.Type != "ADDED" || event.Object.Kind != "Table" || len(event.Object.Rows) != 1 || event.Object.Rows[0].Cells[0] != "table-watch" {
		t.Errorf("got %s", got.body)
	}
}

func (w world) testPartialMetadata(t *testing.T) {
	obj := w.create(t, "metadata", labels("partial", "yes"))
	for _, via := range endpoints() {
		got := read[metav1.PartialObjectMetadata](t, w.call(t, call{path: via.path("metadata"), accept: asMetadata}))
		want := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: obj.ObjectMeta}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("via %s (-want +got):\n%s", via, diff)
		}
	}
	for _, path := range []string{v1Path, v1beta1} {
		got := w.call(t, call{path: path + "?labelSelector=partial", accept: asList})
		list := read[metav1.PartialObjectMetadataList](t, got)
		if list.Kind != "PartialObjectMetadataList" || len(list.Items) != 1 || list.Items[0].UID != obj.UID || strings.Contains(string(got.body), "spec") {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	for _, mediaType := range []string{"application/vnd.kubernetes.protobuf", "application/cbor"} {
		got := w.call(t, call{path: v1Path + "/metadata", accept: mediaType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"})
		if got.code != http.StatusOK || got.header.Get("Content-Type") != mediaType {
			t.Errorf("%s: %d %s", mediaType, got.code, got.header.Get("Content-Type"))
		}
	}
	got := w.firstEvent(t, v1Path+"?watch=1&labelSelector=partial", asMetadata)
	if !strings.Contains(string(got.body), `{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`) {
		t.Errorf("watch: %s", got.body)
	}
}
