package csr_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
)

// What the configuration can switch off about requests.
func TestServerSwitches(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *server.Config) {
		c.API.RuntimeConfig = map[string]bool{"certificates.k8s.io/v1beta1": false}
		c.API.FeatureGates = map[string]bool{"CSRDuration": false, "CBOR": false}
		c.Admission.DisabledPlugins = []string{"CertificateApproval", "CertificateSubjectRestriction"}
	})
	t.Run("v1beta1", w.testWithoutV1beta1)
	t.Run("CSRDuration", w.testWithoutDurations)
	t.Run("CBOR", w.testWithoutCBOR)
	t.Run("admission", w.testWithoutAdmission)
}

// The group has one version, and what v1beta1 stored stays readable.
func (w world) testWithoutV1beta1(t *testing.T) {
	for _, path := range []string{v1beta1, v1beta1 + "/x", "/apis/certificates.k8s.io/v1beta1"} {
		if got := w.call(t, call{path: path}); got.code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.code)
		}
	}
	group := read[metav1.APIGroup](t, w.call(t, call{path: "/apis/certificates.k8s.io"}))
	if len(group.Versions) != 1 || group.PreferredVersion.Version != "v1" {
		t.Errorf("versions are %v", group.Versions)
	}
	for _, path := range []string{"/openapi/v3", "/openapi/v2"} {
		if got := w.call(t, call{path: path}); got.code != http.StatusOK || strings.Contains(string(got.body), "certificates.k8s.io/v1beta1") {
			t.Errorf("%s: %d, names v1beta1", path, got.code)
		}
	}
	old := newBeta(t, "old")
	old.APIVersion, old.Kind = "certificates.k8s.io/v1beta1", "CertificateSigningRequest"
	if got := w.plantBytes(t, "old", asProtobuf(t, old)); got.Spec.SignerName != "kubernetes.io/legacy-unknown" {
		t.Errorf("signer is %q", got.Spec.SignerName)
	}
}

// Requests come without a duration, whatever it was; stored ones keep theirs.
func (w world) testWithoutDurations(t *testing.T) {
	if got := w.create(t, "fresh", expires(1)); got.Spec.ExpirationSeconds != nil {
		t.Errorf("expirationSeconds is %d", *got.Spec.ExpirationSeconds)
	}
	obj := w.plant(t, "stored", expires(3600))
	for _, via := range endpoints() {
		obj = w.mustPut(t, via, changed(obj, labels("via", via.String())))
		if obj.Spec.ExpirationSeconds == nil || *obj.Spec.ExpirationSeconds != 3600 {
			t.Errorf("via %s: expirationSeconds is lost", via)
		}
	}
}

// The switch is this server's: others in this process speak CBOR.
func (w world) testWithoutCBOR(t *testing.T) {
	if got := w.call(t, call{path: v1Path, accept: "application/cbor"}); got.code != http.StatusNotAcceptable {
		t.Errorf("GET: %d", got.code)
	}
	got := w.call(t, call{method: http.MethodPost, path: v1Path, contentType: "application/cbor", body: []byte{0xd9, 0xd9, 0xf7, 0xa0}})
	if got.code != http.StatusUnsupportedMediaType {
		t.Errorf("POST: %d %s", got.code, got.body)
	}
}

// Plugins go one by one.
func (w world) testWithoutAdmission(t *testing.T) {
	w.Grant(t, "updater", apitest.Allow("update", "certificatesigningrequests/status certificatesigningrequests/approval"))
	masters := func(c *csr) {
		c.Spec.Request = newRequest(t, pki.Subject{CommonName: "a", Organizations: []string{"system:masters"}})
	}
	w.create(t, "masters", signer("kubernetes.io/kube-apiserver-client"), masters)
	obj := w.create(t, "free")
	obj, err := put(t, w.as(t, "updater"), approvalEndpoint, changed(obj, timed("", "Approved")))
	checkError(t, err, "")
	_, err = put(t, w.as(t, "updater"), statusEndpoint, changed(obj, certificate(chain(t))))
	checkError(t, err, forbidden("free", `user not permitted to sign requests with signerName "example.com/signer"`))
}
