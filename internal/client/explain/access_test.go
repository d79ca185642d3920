package explain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The accounts are checked and named in this order.
func TestAccounts(t *testing.T) {
	for _, tt := range []struct{ got, want []string }{
		{signerAccounts, []string{"kube-system/csr-signer", "kube-system/csr-webhook-signer",
			"certplane-system/csr-signer", "certplane-system/csr-webhook-signer", "kube-system/certificate-controller"}},
		{declaredAccounts, []string{"kube-system/declared-signer", "certplane-system/declared-signer"}},
		{issuerAccounts, []string{"kube-system/cert-manager-certificatesigningrequests",
			"certplane-system/cert-manager-certificatesigningrequests", "cert-manager/cert-manager"}},
		{approverAccounts, []string{"kube-system/cert-manager-certificaterequests-approver",
			"certplane-system/cert-manager-certificaterequests-approver", "cert-manager/cert-manager"}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("accounts (-want +got):\n%s", diff)
		}
	}
}
