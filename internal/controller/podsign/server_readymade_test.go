package podsign_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// ask sends a request to a signer and returns the answer.
func (w *world) ask(t testing.TB, pod *corev1.Pod, name, signer string) *certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	request := w.requestOf(t, pod, name, newKey(t, pki.Ed25519))
	request.Spec.SignerName = signer
	w.create(t, request)
	return w.answered(t, name)
}

func TestSPIFFE(t *testing.T) {
	w := newWorld(t, trusting.Start(t))
	leaf := leafOf(t, w.ask(t, w.pod(t, "web-1", nil), "svid", "certplane.dev/spiffe"))
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://example.org/ns/"+w.namespace+"/sa/web" {
		t.Errorf("URIs %v", leaf.URIs)
	}
}

// A pod gets the names of those Services that select it and that its service
// account may claim.
func TestServices(t *testing.T) {
	w := newWorld(t, trusting.Start(t))
	for name, selector := range map[string]map[string]string{
		"front":     {"app": "web"},
		"unclaimed": {"app": "web"},
		"others":    {"app": "db"},
		"nobodys":   nil,
	} {
		w.create(t, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
			Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 443}}},
		})
	}
	metadata := metav1.ObjectMeta{Namespace: w.namespace, Name: "claims"}
	w.create(t, &rbacv1.Role{ObjectMeta: metadata, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"claim"}, APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{"front", "others", "nobodys"}},
	}})
	w.create(t, &rbacv1.RoleBinding{
		ObjectMeta: metadata, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "claims"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: account}},
	})
	pod := w.pod(t, "web-1", map[string]string{"app": "web"})
	var names []string
	apitest.Eventually(t, "the server knows what the account may claim", func() bool {
		answered := w.ask(t, pod, "dns-"+string(rune('a'+len(names))), "certplane.dev/service-dns")
		if condition(answered) != "Issued Issued" {
			names = append(names, condition(answered))
			return false
		}
		names = leafOf(t, answered).DNSNames
		return true
	})
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "front."+w.namespace+".svc") }) {
		t.Errorf("names %q", names)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "front") {
			t.Errorf("name %q is not to be had", name)
		}
	}
}

// With its certificate, a pod authenticates as its service account, as with its
// token, until the pod or the account is deleted or the certificate is revoked.
func TestClientOfTheAPI(t *testing.T) {
	w := newWorld(t, trusting.Start(t))
	pod := w.pod(t, "web-1", nil)
	key := newKey(t, pki.Ed25519)
	chains := map[string]string{}
	login := func(pod *corev1.Pod, name string) *caller {
		request := w.requestOf(t, pod, name, key)
		request.Spec.SignerName = "kubernetes.io/kube-apiserver-client-pod"
		w.create(t, request)
		answered := w.answered(t, name)
		chains[name] = string(pki.EncodeCertificates(leafOf(t, answered)))
		return &caller{t, apitest.Client(t, w.LoginWith(t, []byte(answered.Status.CertificateChain), key))}
	}
	web := login(pod, "web")
	who, err := web.whoAmI()
	if err != nil {
		t.Fatal(err)
	}
	extra := who.Extra
	if who.Username != "system:serviceaccount:"+w.namespace+":web" || who.UID != string(w.account.UID) ||
		!slices.Contains(who.Groups, "system:serviceaccounts:"+w.namespace) || !slices.Contains(who.Groups, "system:authenticated") ||
		extra["authentication.kubernetes.io/pod-name"][0] != "web-1" || extra["authentication.kubernetes.io/pod-uid"][0] != string(pod.UID) ||
		extra["authentication.kubernetes.io/node-name"][0] != w.node.Name ||
		!strings.HasPrefix(extra["authentication.kubernetes.io/credential-id"][0], "X509SHA256=") {
		t.Errorf("the API sees %+v", who)
	}

	// A revoked certificate is refused though its pod lives, with the next answer.
	leaked := login(pod, "leaked")
	if _, err := leaked.whoAmI(); err != nil {
		t.Fatal(err)
	}
	w.create(t, &v1alpha1.Revocation{
		ObjectMeta: metav1.ObjectMeta{Name: "leaked"},
		Spec:       v1alpha1.RevocationSpec{Certificates: []v1alpha1.RevokedCertificate{{PEM: chains["leaked"]}}, Reason: "Superseded"},
	})
	if _, err := leaked.whoAmI(); !apierrors.IsUnauthorized(err) {
		t.Errorf("the revoked certificate of a pod: %v", err)
	}
	if _, err := web.whoAmI(); err != nil {
		t.Errorf("another certificate of its pod: %v", err)
	}

	// Another pod with the same name has no right to it.
	now := &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := w.api.Delete(t.Context(), pod, now); err != nil {
		t.Fatal(err)
	}
	again := login(w.pod(t, "web-1", nil), "again")
	if _, err := web.whoAmI(); !apierrors.IsUnauthorized(err) {
		t.Errorf("the certificate of a pod that is gone: %v", err)
	}
	if _, err := again.whoAmI(); err != nil {
		t.Errorf("the certificate of the new pod: %v", err)
	}
	if err := w.api.Delete(t.Context(), w.account); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the certificate of an account that is gone is refused", func() bool {
		_, err := again.whoAmI()
		return apierrors.IsUnauthorized(err)
	})
}

// Certificates of a ready-made signer live no longer than it says.
func TestLongestLife(t *testing.T) {
	w := newWorld(t, trusting.Start(t))
	request := w.requestOf(t, w.pod(t, "web-1", nil), "long", newKey(t, pki.Ed25519))
	request.Spec.SignerName = "certplane.dev/spiffe"
	request.Spec.MaxExpirationSeconds = ptr.To[int32](90 * 24 * 3600)
	w.create(t, request)
	leaf := leafOf(t, w.answered(t, "long"))
	spiffe := w.signer(t, "spiffe", "is there", func(*v1alpha1.Signer) bool { return true })
	longest := 24 * time.Hour
	if declared := spiffe.Spec.Profile.Lifetime.Maximum; declared != nil {
		longest = declared.Duration
	}
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life != longest {
		t.Errorf("it lives for %v, want %v", life, longest)
	}
}

type caller struct {
	t testing.TB
	kubernetes.Interface
}

// whoAmI returns the user that the API authenticates the client as.
func (c *caller) whoAmI() (authenticationv1.UserInfo, error) {
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(c.t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}
