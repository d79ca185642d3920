package csr_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options of a client's request: a dry run, and how invalid fields in a body
// are handled.
func TestServerOptions(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("dry create", w.testDryCreate)
	t.Run("dry update", w.testDryUpdate)
	t.Run("dry delete", w.testDryDelete)
	t.Run("field validation", w.testFieldValidation)
	t.Run("warnings", w.testWarnings)
}

func (w world) testDryCreate(t *testing.T) {
	from := w.version(t)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	got, err := w.csrs().Create(bounded(t), newCSR(t, "", func(c *csr) { c.GenerateName = "dry-" }), dry)
	checkError(t, err, "")
	if got.Name == "" || got.UID == "" || got.CreationTimestamp.IsZero() || got.Spec.Username == "" || got.ResourceVersion != "" {
		t.Errorf("got %v", got)
	}
	w.create(t, "taken")
	_, err = w.csrs().Create(bounded(t), newCSR(t, "taken"), dry)
	checkError(t, err, `certificatesigningrequests.certificates.k8s.io "taken" already exists`)
	_, err = apply(t, w.admin, mainEndpoint, "test", withSpec(t, intent("applied-dry")), dryRun)
	checkError(t, err, "")
	list, err := w.csrs().List(bounded(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Errorf("%d objects since version %s", len(list.Items), from)
	}
}

// A dry run is checked and answered, but not stored.
func (w world) testDryUpdate(t *testing.T) {
	change := map[endpoint]edit{
		mainEndpoint: labels("a", "b"), statusEndpoint: certificate(chain(t)), approvalEndpoint: timed("", "Approved"),
	}
	for _, via := range endpoints() {
		before := w.create(t, "dry-"+via.String())
		sent := changed(before, change[via])
		got, err := put(t, w.admin, via, sent, dryRun)
		checkError(t, err, "")
		if diff := cmp.Diff(sent, got, emptyIsNil(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")); diff != "" {
			t.Errorf("via %s: answered (-want +got):\n%s", via, diff)
		}
		_, err = patch(t, w.admin, via, before.Name, "application/merge-patch+json", `{"metadata":{"labels":{"c":"d"}}}`, dryRun)
		checkError(t, err, "")
		_, err = put(t, w.admin, via, changed(before, finalizers("hold")), dryRun)
		checkError(t, err, invalid(before.Name, `metadata.finalizers[0]: Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified`))
		if diff := cmp.Diff(before, w.get(t, before.Name)); diff != "" {
			t.Errorf("via %s: stored (-want +got):\n%s", via, diff)
		}
	}
}

func (w world) testDryDelete(t *testing.T) {
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	for name, edit := range map[string]edit{"free": func(*csr) {}, "held": finalizers("example.com/hold")} {
		before := w.create(t, "delete-"+name, edit)
		checkError(t, w.csrs().Delete(bounded(t), before.Name, dry), "")
		checkError(t, w.csrs().DeleteCollection(bounded(t), dry, metav1.ListOptions{FieldSelector: "metadata.name=" + before.Name}), "")
		if diff := cmp.Diff(before, w.get(t, before.Name)); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", name, diff)
		}
	}
	err := w.csrs().Delete(bounded(t), "delete-free", metav1.DeleteOptions{DryRun: []string{"some"}})
	if got := statusOf(t, err); got.Code != http.StatusUnprocessableEntity && got.Code != http.StatusBadRequest {
		t.Errorf("an unknown dry run: %v", got)
	}
}

func (w world) testFieldValidation(t *testing.T) {
	request := base64.StdEncoding.EncodeToString(newCSR(t, "").Spec.Request)
	body := func(name string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":%q},`+
			`"spec":{"signerName":"a.b/c","signerName":"example.com/signer","colour":"red","request":%q,"usages":["any"]}}`, name, request)
	}
	both := []string{`299 - "duplicate field \"spec.signerName\""`, `299 - "unknown field \"spec.colour\""`}
	for name, tc := range map[string]struct {
		query    string
		code     int
		warnings []string
	}{
		"default": {"", http.StatusCreated, both},
		"warn":    {"?fieldValidation=Warn", http.StatusCreated, both},
		"ignore":  {"?fieldValidation=Ignore", http.StatusCreated, nil},
		"strict":  {"?fieldValidation=Strict", http.StatusBadRequest, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.call(t, call{method: http.MethodPost, path: v1Path + tc.query, contentType: "application/json", body: body(name)})
			if got.code != tc.code {
				t.Errorf("%d %s", got.code, got.body)
			}
			if diff := cmp.Diff(tc.warnings, got.header.Values("Warning")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
	w.create(t, "patched")
	for _, via := range endpoints() {
		got := w.call(t, call{method: http.MethodPatch, path: via.path("patched") + "?fieldValidation=Strict", contentType: "application/merge-patch+json",
			body: []byte(`{"spec":{"colour":"red"}}`)})
		if got.code != http.StatusUnprocessableEntity && got.code != http.StatusBadRequest {
			t.Errorf("strict patch via %s: %d %s", via, got.code, got.body)
		}
	}
}

// Dropped changes cause no warning; a deprecated version does.
func (w world) testWarnings(t *testing.T) {
	obj := w.create(t, "warnings")
	f := formats(t)[0]
	sent := f.encode(t, changed(obj, everySpecField, timed("", "Approved"), withKind))
	got := w.call(t, call{method: http.MethodPut, path: v1Path + "/warnings", contentType: f.mediaType, body: sent})
	if values := got.header.Values("Warning"); got.code != http.StatusOK || values != nil {
		t.Errorf("v1: %d, warnings %q", got.code, values)
	}
	want := []string{`299 - "certificates.k8s.io/v1beta1 CertificateSigningRequest is deprecated in v1.19+, unavailable in v1.22+; use certificates.k8s.io/v1 CertificateSigningRequest"`}
	for _, path := range []string{"", "/warnings", "/warnings/status", "/warnings/approval"} {
		got := w.call(t, call{path: v1beta1 + path})
		if diff := cmp.Diff(want, got.header.Values("Warning")); diff != "" {
			t.Errorf("v1beta1%s: warnings (-want +got):\n%s", path, diff)
		}
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}
	sent = f.encode(t, newCSR(t, "owners", withKind, func(c *csr) { c.OwnerReferences = []metav1.OwnerReference{owner, owner} }))
	got = w.call(t, call{method: http.MethodPost, path: v1Path, contentType: f.mediaType, body: sent})
	want = []string{`299 - ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"`}
	if diff := cmp.Diff(want, got.header.Values("Warning")); diff != "" {
		t.Errorf("owners: warnings (-want +got):\n%s", diff)
	}
}
