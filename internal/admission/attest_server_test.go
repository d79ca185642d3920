package admission_test

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// newBundle returns a bundle of the signer, or of none.
func newBundle(t *testing.T, name, signerName string) *certificatesv1.ClusterTrustBundle {
	t.Helper()
	root, err := pki.NewRoot(name, apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if signerName != "" {
		name = strings.ReplaceAll(signerName, "/", ":") + ":" + name
	}
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.ClusterTrustBundleSpec{
			SignerName: signerName, TrustBundle: string(pki.EncodeCertificates(root.Certificate())),
		},
	}
}
