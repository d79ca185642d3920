//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package podcertificaterequest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
)

const v1Path, v1beta1Path = "/apis/certificates.k8s.io/v1", "/apis/certificates.k8s.io/v1beta1"

func TestServerCreate(t *testing.T) {
	w := start(t, anyPod)
	t.Run("the forms of all kubelets", w.testKubelets)
	t.Run("defaults", w.testDefaults)
	t.Run("a status that is sent is dropped", w.testStatusDropped)
	t.Run("refusals", w.testRefusals)
	t.Run("stored as v1beta1", w.testStored)
	t.Run("selectors", w.testSelectors)
	t.Run("table", w.testTable)
	t.Run("the old form through v1", w.testOldFormThroughV1)
	t.Run("updates", w.testUpdates)
	t.Run("discovery and schema", w.testDiscovery)
}

func (w world) testKubelets(t *testing.T) {
	files, err := filepath.Glob("../../../../api/certificates/testdata/kubelet-*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		body := must(os.ReadFile(file))(t)
		version := must(groupVersion(body))(t)
		code, _, answer := w.send(t, w.Admin(t), http.MethodPost, "/apis/"+version+"/namespaces/default/podcertificaterequests", "application/json", string(body))
		if code != http.StatusCreated {
			t.Errorf("%s: %d %s", file, code, answer)
		}
	}
}

func groupVersion(body []byte) (string, error) {
	var kind metav1.TypeMeta
	err := json.Unmarshal(body, &kind)
	return kind.APIVersion, err
}

func (w world) testDefaults(t *testing.T) {
	if got := w.create(t, "default-v1beta1", apitest.NewKey(t)); *got.Spec.MaxExpirationSeconds != 86400 {
		t.Errorf("v1beta1: %d", *got.Spec.MaxExpirationSeconds)
	}
	v1 := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "default-v1"}}
	from := newRequest(t, "x", apitest.NewKey(t)).Spec
	v1.Spec = certificatesv1.PodCertificateRequestSpec{
		SignerName: from.SignerName, PodName: from.PodName, PodUID: from.PodUID, ServiceAccountName: from.ServiceAccountName,
		ServiceAccountUID: from.ServiceAccountUID, NodeName: from.NodeName, NodeUID: from.NodeUID, StubPKCS10Request: from.StubPKCS10Request,
	}
	got := must(w.admin.CertificatesV1().PodCertificateRequests("default").Create(t.Context(), v1, metav1.CreateOptions{}))(t)
	if *got.Spec.MaxExpirationSeconds != 86400 {
		t.Errorf("v1: %d", *got.Spec.MaxExpirationSeconds)
	}
}

func (w world) testStatusDropped(t *testing.T) {
	key := apitest.NewKey(t)
	request := newRequest(t, "with-status", key)
	got := must(requests(w.admin).Create(t.Context(), issued(t, request, key), metav1.CreateOptions{}))(t)
	if got.Status.CertificateChain != "" || len(got.Status.Conditions) > 0 {
		t.Errorf("status is %v", got.Status)
	}
}

// Each rule is applied, and errors have the paths that clients expect.
func (w world) testRefusals(t *testing.T) {
	for _, tt := range []struct {
		reason string
		edit   func(*podRequest)
		want   []string
	}{
		{"both forms", func(r *podRequest) { r.Spec.PKIXPublicKey, r.Spec.ProofOfPossession = []byte("x"), []byte("x") }, []string{"FieldValueInvalid spec"}},
		{"a short life", func(r *podRequest) { r.Spec.MaxExpirationSeconds = seconds(3599) }, []string{"FieldValueInvalid spec.maxExpirationSeconds"}},
		{"a long life", func(r *podRequest) { r.Spec.MaxExpirationSeconds = seconds(7862401) }, []string{"FieldValueInvalid spec.maxExpirationSeconds"}},
		{"two slashes", func(r *podRequest) { r.Spec.UnverifiedUserAnnotations = map[string]string{"a.b/c/d": ""} }, []string{"FieldValueInvalid spec.unverifiedUserAnnotations"}},
		{"a large stub", func(r *podRequest) { r.Spec.StubPKCS10Request = make([]byte, 10241) }, []string{"FieldValueTooLong spec.stubPKCS10Request"}},
		{"no UIDs", func(r *podRequest) { r.Spec.PodUID, r.Spec.NodeUID = "", "" }, []string{"FieldValueInvalid spec.podUID", "FieldValueInvalid spec.nodeUID"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := requests(w.admin).Create(t.Context(), newRequest(t, "refused", apitest.NewKey(t), tt.edit), metav1.CreateOptions{})
			wantCauses(t, err, tt.want...)
		})
	}
}

func seconds(n int32) *int32 { return &n }

func (w world) testStored(t *testing.T) {
	w.create(t, "stored", apitest.NewKey(t))
	stored := w.Stored(t, "/registry/podcertificaterequests/default/stored")
	if !strings.HasPrefix(stored, "k8s\x00") || !strings.Contains(stored, "certificates.k8s.io/v1beta1") {
		t.Errorf("stored as %.60q", stored)
	}
}

func (w world) testSelectors(t *testing.T) {
	w.create(t, "selected", apitest.NewKey(t), func(r *podRequest) {
		r.Spec.SignerName, r.Spec.PodName, r.Spec.NodeName = "selected.example.com/x", "selected-pod", "selected-node"
	})
	for _, selector := range []string{
		"metadata.name=selected", "spec.signerName=selected.example.com/x", "spec.podName=selected-pod",
		"spec.nodeName=selected-node", "spec.nodeName=selected-node,spec.signerName=selected.example.com/x",
	} {
		options := metav1.ListOptions{FieldSelector: selector}
		v1 := must(w.admin.CertificatesV1().PodCertificateRequests("").List(t.Context(), options))(t)
		v1beta1 := must(requests(w.admin).List(t.Context(), options))(t)
		if len(v1.Items) != 1 || v1.Items[0].Name != "selected" || len(v1beta1.Items) != 1 {
			t.Errorf("%s: %d and %d requests", selector, len(v1.Items), len(v1beta1.Items))
		}
	}
	for _, selector := range []string{"metadata.namespace=default", "spec.serviceAccountName=sa", "status.phase=x"} {
		_, err := requests(w.admin).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported") {
			t.Errorf("%s: %v", selector, err)
		}
	}
}

func (w world) testTable(t *testing.T) {
	request := w.create(t, "shown", apitest.NewKey(t), func(r *podRequest) {
		r.Labels = map[string]string{"table": "yes"}
		r.Spec.UnverifiedUserAnnotations = map[string]string{"b.c/d": "2", "a.b/c": "1"}
	})
	other := w.create(t, "shown-too", apitest.NewKey(t), func(r *podRequest) { r.Labels = map[string]string{"table": "yes"} })
	must(requests(w.admin).UpdateStatus(t.Context(), deniedOf(request), metav1.UpdateOptions{}))(t)
	want := `Name|PodName|ServiceAccountName|NodeName|SignerName|State|UnverifiedUserAnnotations
shown|p|sa|n|example.com/signer|Denied|a.b/c=1,b.c/d=2
` + other.Name + `|p|sa|n|example.com/signer|Pending|<none>
`
	for _, root := range []string{v1Path, v1beta1Path} {
		got := apitest.Table(t, w.Admin(t), root+"/namespaces/default/podcertificaterequests?labelSelector=table%3Dyes")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", root, diff)
		}
	}
}

// v1 cannot represent the key of an old request, but does not remove it either.
func (w world) testOldFormThroughV1(t *testing.T) {
	body := must(os.ReadFile("../../../../api/certificates/testdata/kubelet-1.35.json"))(t)
	old := &podRequest{}
	if err := json.Unmarshal(body, old); err != nil {
		t.Fatal(err)
	}
	old.Name, old.OwnerReferences = "old-form", nil // the owner does not exist
	created := must(requests(w.admin).Create(t.Context(), old, metav1.CreateOptions{}))(t)
	v1 := w.admin.CertificatesV1().PodCertificateRequests("default")
	shown := must(v1.Get(t.Context(), old.Name, metav1.GetOptions{}))(t)
	if len(shown.Spec.StubPKCS10Request) != 0 {
		t.Errorf("a stub from nowhere: %x", shown.Spec.StubPKCS10Request)
	}
	must(v1.Patch(t.Context(), old.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))(t)
	shown = must(v1.Get(t.Context(), old.Name, metav1.GetOptions{}))(t)
	shown.Status.Conditions = []metav1.Condition{condition("Denied")}
	must(v1.UpdateStatus(t.Context(), shown, metav1.UpdateOptions{}))(t)
	after := must(requests(w.admin).Get(t.Context(), old.Name, metav1.GetOptions{}))(t)
	if diff := cmp.Diff(created.Spec, after.Spec); diff != "" || after.Labels["a"] != "b" || len(after.Status.Conditions) != 1 {
		t.Errorf("spec (-created +after):\n%s\nlabels %v, status %v", diff, after.Labels, after.Status)
	}
	shown = must(v1.Get(t.Context(), old.Name, metav1.GetOptions{}))(t)
	shown.Spec.SignerName = "example.com/other"
	_, err := v1.Update(t.Context(), shown, metav1.UpdateOptions{})
	wantCauses(t, err, "FieldValueInvalid spec")
}

func (w world) testUpdates(t *testing.T) {
	key := apitest.NewKey(t)
	request := w.create(t, "updated", key)
	labelled := request.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	labelled.Status = issued(t, request, key).Status
	got := must(requests(w.admin).Update(t.Context(), labelled, metav1.UpdateOptions{}))(t)
	if got.Labels["a"] != "b" || got.Status.CertificateChain != "" {
		t.Errorf("labels %v, status %v", got.Labels, got.Status)
	}
	other := got.DeepCopy()
	other.Spec.MaxExpirationSeconds = seconds(3600)
	_, err := requests(w.admin).Update(t.Context(), other, metav1.UpdateOptions{})
	wantCauses(t, err, "FieldValueInvalid spec")
	blind := got.DeepCopy()
	blind.ResourceVersion = ""
	_, err = requests(w.admin).Update(t.Context(), blind, metav1.UpdateOptions{})
	wantCauses(t, err, "FieldValueInvalid metadata.resourceVersion")
	absent := newRequest(t, "absent", key)
	absent.ResourceVersion = "1"
	if _, err := requests(w.admin).Update(t.Context(), absent, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a PUT makes a request: %v", err)
	}
}

func (w world) testDiscovery(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		list := must(w.admin.Discovery().ServerResourcesForGroupVersion("certificates.k8s.io/" + version))(t)
		got := map[string][]string{}
		for _, resource := range list.APIResources {
			if resource.Kind == "PodCertificateRequest" && resource.Namespaced && len(resource.ShortNames) == 0 {
				got[resource.Name] = resource.Verbs
			}
		}
		want := map[string][]string{
			"podcertificaterequests":        {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			"podcertificaterequests/status": {"get", "patch", "update"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		_, _, document := w.send(t, w.Admin(t), http.MethodGet, "/openapi/v3/apis/certificates.k8s.io/"+version, "application/json", "")
		if !strings.Contains(string(document), "io.k8s.api.certificates."+version+".PodCertificateRequestSpec") {
			t.Errorf("no schema in %s", version)
		}
	}
	code, _, _ := w.send(t, w.Admin(t), http.MethodPost, v1Path+"/namespaces/default/podcertificaterequests/stored/status", "application/json", "{}")
	if code != http.StatusMethodNotAllowed {
		t.Errorf("POST to /status: %d", code)
	}
}

// Nodes are notified immediately about the requests for their pods.
func TestServerWatch(t *testing.T) {
	w := start(t, anyPod)
	options := metav1.ListOptions{FieldSelector: "spec.nodeName=n"}
	watcher := must(requests(w.admin).Watch(t.Context(), options))(t)
	defer watcher.Stop()
	w.create(t, "elsewhere", apitest.NewKey(t), func(r *podRequest) { r.Spec.NodeName = "m" })
	request := w.create(t, "here", apitest.NewKey(t))
	must(requests(w.admin).UpdateStatus(t.Context(), deniedOf(request), metav1.UpdateOptions{}))(t)
	var got []string
	for len(got) < 2 {
		select {
		case event := <-watcher.ResultChan():
			got = append(got, string(event.Type)+" "+event.Object.(*podRequest).Name)
		case <-time.After(30 * time.Second):
			t.Fatalf("saw only %v", got)
		}
	}
	if !slices.Equal(got, []string{"ADDED here", "MODIFIED here"}) {
		t.Errorf("saw %v", got)
	}
}
