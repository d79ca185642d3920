package podsign_test

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// The answer to the creation of a request has its certificate, or why it gets none,
// and nothing is written after that. Signers can leave that off.
func TestAnsweredOnCreate(t *testing.T) {
	w := newWorld(t, apitest.Start(t, apitest.IssueOnCreate))
	signer := w.newSigner()
	signer.Spec.Profile.KeyTypes = []v1alpha1.KeyType{"ECDSAP256"}
	signer = w.declare(t, signer)
	pod := w.pod(t, "web", nil)
	created := w.requestOf(t, pod, "first", apitest.NewKey(t))
	w.create(t, created)
	if condition(created) != "Issued Issued" || created.Status.CertificateChain == "" || created.Status.BeginRefreshAt == nil {
		t.Fatalf("the answer has the status %+v", created.Status)
	}
	if stored := w.answered(t, "first"); stored.ResourceVersion != created.ResourceVersion {
		t.Errorf("version %s was stored after %s was answered", stored.ResourceVersion, created.ResourceVersion)
	}

	v1, err := w.core.CertificatesV1().PodCertificateRequests(w.namespace).Create(t.Context(), inV1(w.requestOf(t, pod, "v1", apitest.NewKey(t))), metav1.CreateOptions{})
	if err != nil || v1.Status.CertificateChain == "" {
		t.Errorf("the answer to a client of v1 has the status %+v, %v", v1.Status, err)
	}

	denied := w.requestOf(t, pod, "denied", newKey(t, pki.Ed25519))
	w.create(t, denied)
	if len(denied.Status.Conditions) != 1 || denied.Status.Conditions[0].Type != certificatesv1beta1.PodCertificateRequestConditionTypeDenied {
		t.Errorf("the answer to a request that the signer denies has the status %+v", denied.Status)
	}

	// A patch: a controller may write the status of the Signer meanwhile.
	off := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"issueOnCreate":false}}`))
	if err := w.api.Patch(t.Context(), signer, off); err != nil {
		t.Fatal(err)
	}
	name := ""
	apitest.Eventually(t, "requests are not answered at their creation", func() bool {
		name += "x"
		later := w.requestOf(t, pod, "later-"+name, apitest.NewKey(t))
		w.create(t, later)
		return len(later.Status.Conditions) == 0
	})
	if got := condition(w.answered(t, "later-"+name)); got != "Issued Issued" {
		t.Errorf("the request is answered by %s", got)
	}
}

// The server's setting leaves it off for all signers.
func TestNotAnsweredOnCreate(t *testing.T) {
	w := newWorld(t, apitest.Start(t, func(cfg *server.Config) { cfg.API.IssueOnCreate = false }))
	w.declare(t, w.newSigner())
	created := w.requestOf(t, w.pod(t, "web", nil), "first", apitest.NewKey(t))
	w.create(t, created)
	if len(created.Status.Conditions) > 0 {
		t.Errorf("the answer has the status %+v", created.Status)
	}
	if got := condition(w.answered(t, "first")); got != "Issued Issued" {
		t.Errorf("the request is answered by %s", got)
	}
}

func inV1(r *certificatesv1beta1.PodCertificateRequest) *certificatesv1.PodCertificateRequest {
	return &certificatesv1.PodCertificateRequest{ObjectMeta: r.ObjectMeta, Spec: certificatesv1.PodCertificateRequestSpec{
		SignerName: r.Spec.SignerName, PodName: r.Spec.PodName, PodUID: r.Spec.PodUID,
		ServiceAccountName: r.Spec.ServiceAccountName, ServiceAccountUID: r.Spec.ServiceAccountUID,
		NodeName: r.Spec.NodeName, NodeUID: r.Spec.NodeUID, MaxExpirationSeconds: r.Spec.MaxExpirationSeconds, StubPKCS10Request: r.Spec.StubPKCS10Request,
	}}
}
