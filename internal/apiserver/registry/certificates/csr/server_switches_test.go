package csr_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/run/server"
)

// Stored objects do not change while a feature is off. The tests of the
// switches check how they affect requests.
func TestServerSwitches(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *server.Config) {
		c.API.RuntimeConfig = map[string]bool{"certificates.k8s.io/v1beta1": false}
		c.API.FeatureGates = map[string]bool{"CSRDuration": false}
	})
	t.Run("v1beta1", w.testWithoutV1beta1)
	t.Run("CSRDuration", w.testWithoutDurations)
}

// v1beta1 is not served, and the objects that it stored can still be read.
func (w world) testWithoutV1beta1(t *testing.T) {
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

// Stored requests keep their durations.
func (w world) testWithoutDurations(t *testing.T) {
	obj := w.plant(t, "stored", expires(3600))
	for _, via := range endpoints() {
		obj = w.mustPut(t, via, changed(obj, labels("via", via.String())))
		if obj.Spec.ExpirationSeconds == nil || *obj.Spec.ExpirationSeconds != 3600 {
			t.Errorf("via %s: expirationSeconds is lost", via)
		}
	}
}
