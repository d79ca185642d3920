package requestsign_test

import (
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
)

// policiesOfOthers are about other requests than those for the ClusterIssuer "ca",
// or only watch these.
var policiesOfOthers = map[string]string{
	"other-issuer": "{effect: DenyRest, match: {signers: [clusterissuers.cert-manager.io/other]}}",
	"namespaced":   "{effect: Limit, match: {signers: [issuers.cert-manager.io/*]}, certificate: {keys: {types: [RSA4096]}}}",
	"pods":         "{effect: Limit, match: {kinds: [PodCertificateRequest], signers: ['*']}, certificate: {keys: {types: [ED25519]}}}",
	"elsewhere":    "{effect: DenyRest, match: {kinds: [CertificateRequest], signers: ['*'], namespaces: {names: [elsewhere]}}}",
	"shadow":       "{effect: DenyRest, mode: Shadow, match: {signers: [clusterissuers.cert-manager.io/ca]}}",
}

// governOthers puts policies in force that no request of the test is affected by.
func (w world) governOthers(t *testing.T) {
	t.Helper()
	for name, spec := range policiesOfOthers {
		p := &v1alpha1.CertificatePolicy{}
		p.Name = name
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w.create(t, p)
		apitest.Eventually(t, name+" is in force", func() bool {
			return w.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && apimeta.IsStatusConditionTrue(p.Status.Conditions, "Ready")
		})
	}
}
