package csr_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	betaapi "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

// The behaviour of the deprecated version. Its defaults and its leniency are
// tested with the API server, next to v1's.
func TestServerV1beta1(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("a signer of its own", w.testBetaSigner)
	t.Run("conditions of status", w.testBetaStatusConditions)
	t.Run("both versions show one object", w.testBothVersions)
}

type betaEdit = func(*betaapi.CertificateSigningRequest)

func newBeta(t testing.TB, name string, edits ...betaEdit) *betaapi.CertificateSigningRequest {
	t.Helper()
	obj := &betaapi.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       betaapi.CertificateSigningRequestSpec{Request: newRequest(t, pki.Subject{CommonName: "alice"})},
	}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

// putBeta updates a request through an endpoint of v1beta1.
func (w world) putBeta(t testing.TB, via endpoint, obj *betaapi.CertificateSigningRequest) (*betaapi.CertificateSigningRequest, error) {
	t.Helper()
	out := &betaapi.CertificateSigningRequest{}
	request := w.admin.CertificatesV1beta1().RESTClient().Put().Resource("certificatesigningrequests").Name(obj.Name).Body(obj)
	if via != mainEndpoint {
		request = request.SubResource(string(via))
	}
	return out, request.Do(bounded(t)).Into(out)
}

func (w world) getBeta(t testing.TB, name string) *betaapi.CertificateSigningRequest {
	t.Helper()
	obj, err := w.admin.CertificatesV1beta1().CertificateSigningRequests().Get(bounded(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// The default usages are those from before signers existed.
func (w world) testBetaSigner(t *testing.T) {
	signer := "example.com/a"
	obj := newBeta(t, "signer", func(c *betaapi.CertificateSigningRequest) { c.Spec.SignerName = &signer })
	got, err := w.admin.CertificatesV1beta1().CertificateSigningRequests().Create(bounded(t), obj, metav1.CreateOptions{})
	checkError(t, err, "")
	want := []betaapi.KeyUsage{"digital signature", "key encipherment"}
	if diff := cmp.Diff(want, got.Spec.Usages); diff != "" || *got.Spec.SignerName != signer {
		t.Errorf("signer %s, usages (-want +got):\n%s", *got.Spec.SignerName, diff)
	}
}

// As long as no decision is added or removed, conditions are stored as sent.
func (w world) testBetaStatusConditions(t *testing.T) {
	conditions := func(types ...betaapi.RequestConditionType) []betaapi.CertificateSigningRequestCondition {
		var conditions []betaapi.CertificateSigningRequestCondition
		for _, t := range types {
			conditions = append(conditions, betaapi.CertificateSigningRequestCondition{Type: t})
		}
		return conditions
	}
	for i, tc := range []struct {
		reason string
		stored edit
		sent   []betaapi.CertificateSigningRequestCondition
		want   string
	}{
		{"a decision stays", timed("", "Approved"), conditions("Failed", "Approved"), "Failed Approved"},
		{"others come", timed("", "A"), conditions("B", "Failed"), "B Failed"},
	} {
		name := "beta-" + string(rune('a'+i))
		w.plant(t, name, tc.stored)
		obj := w.getBeta(t, name)
		obj.Status.Conditions = tc.sent
		_, err := w.putBeta(t, statusEndpoint, obj)
		checkError(t, err, "")
		if got := typesOf(w.get(t, name)); got != tc.want {
			t.Errorf("%s: conditions are %q, want %q", tc.reason, got, tc.want)
		}
	}
}

func (w world) testBothVersions(t *testing.T) {
	v1 := w.plant(t, "both", timed("r", "Approved", "Failed"), certificate(chain(t)), expires(3600), func(c *csr) {
		c.Spec.Username, c.Spec.UID, c.Spec.Groups = "alice", "1", []string{"team"}
	})
	beta := w.getBeta(t, "both")
	if beta.UID != v1.UID || beta.ResourceVersion != v1.ResourceVersion || *beta.Spec.SignerName != v1.Spec.SignerName ||
		*beta.Spec.ExpirationSeconds != 3600 || beta.Spec.Username != "alice" || string(beta.Status.Certificate) != string(v1.Status.Certificate) ||
		len(beta.Status.Conditions) != 2 || beta.Status.Conditions[1].Reason != "r" {
		t.Errorf("v1 %v\nv1beta1 %v", v1, beta)
	}
	event := w.firstEvent(t, v1beta1+"?watch=1&fieldSelector=metadata.name%3Dboth", "application/json")
	if !strings.Contains(string(event.body), `{"type":"ADDED","object":{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1beta1"`) {
		t.Errorf("watch: %s", event.body)
	}
}
