package podsign_test

import (
	"net/http"
	"os"
	"slices"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	signing "github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/issuing/signer/webhook/webhooktest"
	"github.com/certplane/certplane/internal/pki"
)

// An endpoint signs what the profile specifies, for the pod in the request that
// it gets. An endpoint that knows nothing of pods can do no harm.
func TestWebhook(t *testing.T) {
	w := newWorld(t, common.Start(t))
	endpoint, credentials := webhooktest.Start(t), "endpoint-of-"+w.namespace
	w.create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: credentials},
		Data:       map[string][]byte{"tls.crt": file(t, endpoint.CertFile), "tls.key": file(t, endpoint.KeyFile), "token": file(t, endpoint.TokenFile)},
	})
	s := w.newSigner()
	s.Spec.CA = v1alpha1.SignerCA{Webhook: &v1alpha1.WebhookCA{
		URL: endpoint.URL, CABundle: string(file(t, endpoint.CAFile)), Credentials: &v1alpha1.SecretCA{Name: credentials},
		Roots: string(pki.EncodeCertificates(endpoint.CA.Anchor())),
	}}
	pod := w.pod(t, "web-1", nil)
	w.declare(t, s)

	asked := make(chan signing.SigningRequest, 100)
	endpoint.Answers(func(rw http.ResponseWriter, request signing.SigningRequest) {
		asked <- request
		webhooktest.Send(t, rw, request.Issued(endpoint.Issue(t, request)))
	})
	w.create(t, w.requestOf(t, pod, "fine", newKey(t, pki.Ed25519)))
	leaf := leafOf(t, w.answered(t, "fine"))
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://example.org/ns/"+w.namespace+"/sa/web" {
		t.Errorf("URIs %v", leaf.URIs)
	}
	if got := <-asked; got.Pod == nil || got.Pod.Name != "web-1" || got.Pod.UID != string(pod.UID) || got.Requester.Username != "system:serviceaccount:"+w.namespace+":web" {
		t.Errorf("the endpoint is told of %+v, %+v", got.Pod, got.Requester)
	}

	// The endpoint issues a different certificate, which no client gets to see.
	endpoint.Answers(func(rw http.ResponseWriter, request signing.SigningRequest) {
		request.Certificate.URIs = []string{"spiffe://example.org/ns/shop/sa/admin"}
		webhooktest.Send(t, rw, request.Issued(endpoint.Issue(t, request)))
	})
	w.create(t, w.requestOf(t, pod, "wrong", newKey(t, pki.Ed25519)))
	apitest.Eventually(t, "an Event tells that the answer is no use", func() bool {
		all, err := w.core.EventsV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(all.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == "wrong" && e.Reason == "SignerAnswerInvalid"
		})
	})
	wrong := &certificatesv1beta1.PodCertificateRequest{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "wrong"}, wrong); err != nil || wrong.Status.CertificateChain != "" {
		t.Errorf("status %+v, %v", wrong.Status, err)
	}

	// The endpoint refuses the request permanently.
	endpoint.Answers(func(rw http.ResponseWriter, request signing.SigningRequest) {
		webhooktest.Send(t, rw, request.Refused("NotInInventory", "the pod is not in the inventory"))
	})
	w.create(t, w.requestOf(t, pod, "refused", newKey(t, pki.Ed25519)))
	if got := condition(w.answered(t, "refused")); got != "Failed NotInInventory" {
		t.Errorf("refused: %s", got)
	}
	key := newKey(t, pki.Ed25519)
	w.create(t, legacy(t, w.requestOf(t, pod, "legacy", key), key))
	if got := condition(w.answered(t, "legacy")); got != "Failed InvalidRequest" {
		t.Errorf("a request without PKCS#10: %s", got)
	}
}

func file(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
