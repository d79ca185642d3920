package admission_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// A user who may only create requests cannot create requests that stay forever.
func (w world) testRequestLifetime(t *testing.T) {
	w.Grant(t, "asks", apitest.Allow("create", "certificatesigningrequests"))
	w.Grant(t, "asks-and-updates", apitest.Allow("create update", "certificatesigningrequests"))
	w.Grant(t, "asks-and-updates-another", apitest.Allow("create", "certificatesigningrequests"), apitest.Allow("update", "certificatesigningrequests", "another"))
	request := func(name string, change func(*csr)) *csr {
		c := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: "somebody"}, apitest.NewKey(t))
		change(c)
		return c
	}
	finalized := func(c *csr) { c.Finalizers = []string{"example.com/stay"} }
	owned := func(c *csr) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "uid"}}
	}
	tests := []struct {
		user, name string
		change     func(*csr)
		want       bool
	}{
		{"asks", "stays", finalized, false},
		{"asks", "goes-with-its-owner", owned, true},
		{"asks-and-updates", "may-stay", finalized, true},
		{"asks-and-updates-another", "another", finalized, true},
		{"asks-and-updates-another", "not-that-one", finalized, false},
	}
	for _, tt := range tests {
		t.Run(tt.user+" "+tt.name, func(t *testing.T) {
			_, err := w.as(t, tt.user).CertificatesV1().CertificateSigningRequests().Create(t.Context(), request(tt.name, tt.change), metav1.CreateOptions{DryRun: dryRun.DryRun})
			if tt.want && err != nil {
				t.Error(err)
			}
			if !tt.want {
				wantForbidden(t, err, tt.name, "metadata.finalizers: setting finalizers requires the permission to update requests; leave them out")
			}
		})
	}
}
