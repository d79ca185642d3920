package admission_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// newBundle returns a bundle of the signer, or of none.
func newBundle(t *testing.T, name, signerName string) *certificatesv1.ClusterTrustBundle {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, apitest.NewKey(t), time.Hour, time.Now())
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

// A write needs the right to attest as well, in every version, and validation
// errors come first.
func TestServerAttest(t *testing.T) {
	w := start(t)
	w.Grant(t, "by-name", apitest.Allow("*", "clustertrustbundles"), apitest.Allow("attest", "signers", signerName))
	w.Grant(t, "by-domain", apitest.Allow("*", "clustertrustbundles"), apitest.Allow("attest", "signers", "example.com/*"))
	w.Grant(t, "of-another", apitest.Allow("*", "clustertrustbundles"), apitest.Allow("attest", "signers", "example.com/other"))
	w.Grant(t, "writer", apitest.Allow("*", "clustertrustbundles"))
	const refused = `clustertrustbundles.certificates.k8s.io "example.com:signer:x" is forbidden: user not permitted to attest for signerName "example.com/signer"`

	for user, allowed := range map[string]bool{"by-name": true, "by-domain": true, "of-another": false, "writer": false} {
		bundles := w.as(t, user).CertificatesV1().ClusterTrustBundles()
		if _, err := bundles.Create(t.Context(), newBundle(t, user, ""), metav1.CreateOptions{}); err != nil {
			t.Errorf("%s, no signer: %v", user, err)
		}
		created, err := bundles.Create(t.Context(), newBundle(t, "x", signerName), metav1.CreateOptions{})
		if allowed {
			if err != nil {
				t.Fatalf("%s: %v", user, err)
			}
			if err := bundles.Delete(t.Context(), created.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		} else if !apierrors.IsForbidden(err) || err.Error() != refused {
			t.Errorf("%s: got  %v\nwant %s", user, err, refused)
		}
		broken := newBundle(t, "x", signerName)
		broken.Spec.TrustBundle = "junk"
		if _, err := bundles.Create(t.Context(), broken, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s, junk: %v", user, err)
		}
	}
	old := certificatesv1beta1.ClusterTrustBundle{ObjectMeta: newBundle(t, "x", signerName).ObjectMeta}
	old.Spec = certificatesv1beta1.ClusterTrustBundleSpec(newBundle(t, "x", signerName).Spec)
	if _, err := w.as(t, "writer").CertificatesV1beta1().ClusterTrustBundles().Create(t.Context(), &old, metav1.CreateOptions{}); err == nil || err.Error() != refused {
		t.Errorf("v1beta1: got  %v\nwant %s", err, refused)
	}
}

func TestServerAttestOfUpdates(t *testing.T) {
	w := start(t)
	w.Grant(t, "writer", apitest.Allow("*", "clustertrustbundles"))
	stored, err := w.admin.CertificatesV1().ClusterTrustBundles().Create(t.Context(), newBundle(t, "x", signerName), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var told toldWarnings
	cfg := w.As(t, "writer")
	cfg.WarningHandler = &told
	bundles := apitest.Client(t, cfg).CertificatesV1().ClusterTrustBundles()
	for _, tc := range []struct {
		reason, patch string
		allowed       bool
	}{
		{"nothing", `{}`, true},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/x"]}}`, true},
		{"no finalizer", `{"metadata":{"finalizers":null}}`, true},
		{"a label", `{"metadata":{"labels":{"a":"b"}}}`, false},
		{"a finalizer and a label", `{"metadata":{"finalizers":["example.com/x"],"labels":{"a":"b"}}}`, false},
		{"other anchors", `{"spec":{"trustBundle":` + strconv.Quote(newBundle(t, "y", "").Spec.TrustBundle) + `}}`, false},
	} {
		_, err := bundles.Patch(t.Context(), stored.Name, types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{})
		if tc.allowed && err != nil || !tc.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
	if err := bundles.Delete(t.Context(), stored.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting: %v", err)
	}
	if len(told) != 1 || !strings.Contains(told[0], "you may not attest") {
		t.Errorf("warnings are %v", told)
	}
}

// toldWarnings are the warnings that a client gets from the server.
type toldWarnings []string

func (w *toldWarnings) HandleWarningHeader(_ int, _ string, text string) { *w = append(*w, text) }
