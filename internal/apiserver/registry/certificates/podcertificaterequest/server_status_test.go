package podcertificaterequest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

func TestServerStatus(t *testing.T) {
	w := start(t, anyPod)
	t.Run("issuing", w.testIssuing)
	t.Run("what a signer cannot change", w.testRestored)
	t.Run("refusals", w.testStatusRefusals)
	t.Run("the right to sign", w.testMaySign)
	t.Run("the least that a signer needs", w.testLeastRights)
	t.Run("odd chains are answered with a warning", w.testWarnings)
	t.Run("who owns what after apply", w.testApply)
	t.Run("the status itself", w.testReadStatus)
}

func (w world) testIssuing(t *testing.T) {
	key := apitest.NewKey(t)
	request := w.create(t, "issued", key)
	got := must(requests(w.admin).UpdateStatus(t.Context(), issued(t, request, key), metav1.UpdateOptions{}))(t)
	again := must(requests(w.admin).UpdateStatus(t.Context(), got, metav1.UpdateOptions{}))(t)
	if again.ResourceVersion != got.ResourceVersion {
		t.Error("nothing was changed, and something was written")
	}
	_, err := requests(w.admin).UpdateStatus(t.Context(), issued(t, got, key), metav1.UpdateOptions{})
	wantCauses(t, err, "FieldValueInvalid status")
	_, err = requests(w.admin).UpdateStatus(t.Context(), deniedOf(got), metav1.UpdateOptions{})
	wantCauses(t, err, "FieldValueInvalid status")
}

func (w world) testRestored(t *testing.T) {
	request := w.create(t, "restored", apitest.NewKey(t))
	write := deniedOf(request)
	write.Spec.SignerName, write.Spec.StubPKCS10Request = "example.com/other", nil
	write.Labels, write.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	write.Finalizers, write.OwnerReferences = []string{"e.f/g"}, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}}
	got := must(requests(w.admin).UpdateStatus(t.Context(), write, metav1.UpdateOptions{}))(t)
	if diff := cmp.Diff(request.Spec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if len(got.Labels)+len(got.Annotations)+len(got.Finalizers)+len(got.OwnerReferences) > 0 || len(got.Status.Conditions) != 1 {
		t.Errorf("got %v, status %v", got.ObjectMeta, got.Status)
	}
}

func (w world) testStatusRefusals(t *testing.T) {
	key := apitest.NewKey(t)
	request := w.create(t, "refusals", key)
	good := issued(t, request, key)
	for _, tt := range []struct {
		reason string
		edit   func(*podRequest)
		want   []string
	}{
		{"an unknown condition", func(r *podRequest) { r.Status.Conditions[0].Type = "Approved" }, []string{"FieldValueNotSupported status.conditions.[0].type"}},
		{"issued is false", func(r *podRequest) { r.Status.Conditions[0].Status = "False" }, []string{"FieldValueNotSupported status.conditions.[0].status"}},
		{"two outcomes", func(r *podRequest) { r.Status.Conditions = append(r.Status.Conditions, condition("Denied")) },
			[]string{"FieldValueInvalid status.conditions.[1].type"}},
		{"denied with a chain", func(r *podRequest) { r.Status.Conditions[0].Type = "Denied" }, []string{"FieldValueInvalid status"}},
		{"a chain and no outcome", func(r *podRequest) { r.Status.Conditions = nil }, []string{"FieldValueInvalid status"}},
		{"no times", func(r *podRequest) { r.Status.NotBefore, r.Status.NotAfter, r.Status.BeginRefreshAt = nil, nil, nil },
			[]string{"FieldValueRequired status.notBefore", "FieldValueRequired status.notAfter", "FieldValueRequired status.beginRefreshAt"}},
		{"refreshed at once", func(r *podRequest) { r.Status.BeginRefreshAt = r.Status.NotBefore }, []string{"FieldValueInvalid status.beginRefreshAt"}},
		{"for another key", func(r *podRequest) { *r = *issued(t, r, apitest.NewKey(t)) }, []string{"FieldValueInvalid status.certificateChain"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			write := good.DeepCopy()
			tt.edit(write)
			_, err := requests(w.admin).UpdateStatus(t.Context(), write, metav1.UpdateOptions{})
			wantCauses(t, err, tt.want...)
		})
	}
}

// A user who may not sign gets the same response whatever the update contains,
// unless it changes nothing.
func (w world) testMaySign(t *testing.T) {
	w.Grant(t, "reader", apitest.Allow("get", "podcertificaterequests"))
	w.Grant(t, "writer", apitest.Allow("get update patch", "podcertificaterequests podcertificaterequests/status"), apitest.Allow("sign", "signers", "example.com/other", "other.com/*"))
	key := apitest.NewKey(t)
	request := w.create(t, "signing", key)
	reader, writer := apitest.Client(t, w.As(t, "reader")), apitest.Client(t, w.As(t, "writer"))
	if _, err := requests(reader).UpdateStatus(t.Context(), deniedOf(request), metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without any right: %v, want 403", err)
	}
	invalid := issued(t, request, apitest.NewKey(t))
	invalid.Status.Conditions[0].Type = "Approved"
	renamed := deniedOf(request)
	renamed.Spec.SignerName = "example.com/other" // is restored before any check
	for reason, write := range map[string]*podRequest{
		"valid": issued(t, request, key), "invalid": invalid, "denied": deniedOf(request), "for a signer of his": renamed,
	} {
		_, err := requests(writer).UpdateStatus(t.Context(), write, metav1.UpdateOptions{})
		if got := causes(t, err); len(got) != 1 || got[0] != "FieldValueForbidden spec.signerName" || !strings.Contains(err.Error(), `user "writer" is not permitted to sign requests with signerName "example.com/signer"`) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if _, err := requests(writer).UpdateStatus(t.Context(), request, metav1.UpdateOptions{}); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
	patch := []byte(`{"status":{"certificateChain":"x"}}`)
	_, err := requests(writer).Patch(t.Context(), request.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	wantCauses(t, err, "FieldValueForbidden spec.signerName")
}

// A signer needs only the rights to read requests, to answer them and to sign
// for its domain.
func (w world) testLeastRights(t *testing.T) {
	w.Grant(t, "signer", apitest.Allow("list watch", "podcertificaterequests"), apitest.Allow("update", "podcertificaterequests/status"),
		apitest.Allow("sign", "signers", "example.com/*"))
	key := apitest.NewKey(t)
	w.create(t, "least", key)
	signer := apitest.Client(t, w.As(t, "signer"))
	found := must(requests(signer).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=least,spec.signerName=" + signerName}))(t)
	must(requests(signer).UpdateStatus(t.Context(), issued(t, &found.Items[0], key), metav1.UpdateOptions{}))(t)
}

func (w world) testWarnings(t *testing.T) {
	key := apitest.NewKey(t)
	request := w.create(t, "odd", key)
	other, err := pki.NewRoot(pki.UnrecordedSigning, "other", apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	write := answered(request, selfSigned(t, key), other.Certificate())
	write.APIVersion, write.Kind = "certificates.k8s.io/v1beta1", "PodCertificateRequest"
	body := must(json.Marshal(write))(t)
	code, header, answer := w.send(t, w.Admin(t), http.MethodPut, v1beta1Path+"/namespaces/default/podcertificaterequests/odd/status", "application/json", string(body))
	warnings := strings.Join(header["Warning"], "\n")
	if code != http.StatusOK || !strings.Contains(warnings, "is a CA") || !strings.Contains(warnings, "not issued by") {
		t.Errorf("%d %s, warnings %q", code, answer, warnings)
	}
}

// A manager that applies a status owns none of the restored fields, and vice
// versa, in every version.
func (w world) testApply(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		name := "applied-" + version
		w.create(t, name, apitest.NewKey(t))
		path := "/apis/certificates.k8s.io/" + version + "/namespaces/default/podcertificaterequests/" + name
		head := fmt.Sprintf(`{"apiVersion":"certificates.k8s.io/%s","kind":"PodCertificateRequest","metadata":{"name":%q,"labels":{"a":"b"}}`, version, name)
		status := `"status":{"conditions":[{"type":"Denied","status":"True","reason":"Test","message":"","lastTransitionTime":"2030-01-01T00:00:00Z"}]}`
		for _, step := range []struct{ part, manager, body, keeps, drops string }{
			{"", "main", head + "," + status + "}", "f:labels", "f:status"},
			{"/status", "signer", head + `,"spec":{"signerName":"example.com/other"},` + status + "}", "f:conditions", "f:spec"},
		} {
			code, _, answer := w.send(t, w.Admin(t), http.MethodPatch, path+step.part+"?fieldManager="+step.manager, "application/apply-patch+yaml", step.body)
			if code != http.StatusOK {
				t.Fatalf("%s%s: %d %s", version, step.part, code, answer)
			}
			owned := w.ownedBy(t, name, step.manager)
			if !strings.Contains(owned, step.keeps) || strings.Contains(owned, step.drops) {
				t.Errorf("%s%s: %s owns %s", version, step.part, step.manager, owned)
			}
			if step.part == "/status" && strings.Contains(owned, "f:labels") {
				t.Errorf("%s: the signer owns labels that it cannot set: %s", version, owned)
			}
		}
	}
}

func (w world) ownedBy(t testing.TB, name, manager string) string {
	t.Helper()
	got := must(requests(w.admin).Get(t.Context(), name, metav1.GetOptions{}))(t)
	for _, entry := range got.ManagedFields {
		if entry.Manager == manager {
			return string(entry.FieldsV1.GetRawBytes())
		}
	}
	return ""
}

func (w world) testReadStatus(t *testing.T) {
	w.create(t, "read", apitest.NewKey(t))
	path := v1Path + "/namespaces/default/podcertificaterequests/read/status"
	if got := apitest.Table(t, w.Admin(t), path); !strings.Contains(got, "read|p|sa|n|example.com/signer|Pending|<none>") {
		t.Errorf("table:\n%s", got)
	}
}
