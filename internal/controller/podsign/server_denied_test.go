package podsign_test

import (
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// A request that makes a false statement about its pod is denied.
func TestIdentity(t *testing.T) {
	w := newWorld(t, trusting.Start(t))
	w.declare(t, w.newSigner())
	pod, ended := w.pod(t, "web-1", nil), w.pod(t, "ended", nil)
	ended.Status.Phase = corev1.PodSucceeded
	if err := w.api.Status().Update(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	other, err := w.core.CoreV1().ServiceAccounts(w.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const lie = types.UID("11111111-2222-3333-4444-555555555555")
	for name, tc := range map[string]struct {
		change func(*certificatesv1beta1.PodCertificateRequestSpec)
		want   string
	}{
		"truth":       {func(*certificatesv1beta1.PodCertificateRequestSpec) {}, "Issued Issued"},
		"another-pod": {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodUID = lie }, "Denied IdentityMismatch"},
		"no-pod":      {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodName = "nobody" }, "Denied IdentityMismatch"},
		"another-account": {func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.ServiceAccountName, s.ServiceAccountUID = other.Name, other.UID
		}, "Denied IdentityMismatch"},
		"account-before": {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.ServiceAccountUID = lie }, "Denied IdentityMismatch"},
		"another-node":   {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.NodeName = "node-2" }, "Denied IdentityMismatch"},
		"node-before":    {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.NodeUID = lie }, "Denied IdentityMismatch"},
		"ended":          {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodName, s.PodUID = ended.Name, ended.UID }, "Denied PodEnded"},
	} {
		request := w.requestOf(t, pod, name, newKey(t, pki.Ed25519))
		tc.change(&request.Spec)
		w.create(t, request)
		if got := w.answered(t, name); condition(got) != tc.want {
			t.Errorf("%s: %s, want %s", name, condition(got), tc.want)
		}
	}
}

// A request that a profile refuses is denied with the API's reasons, and is
// counted.
func TestDenied(t *testing.T) {
	w := newWorld(t, trusting.Start(t))
	s := w.newSigner()
	s.Spec.Profile.KeyTypes = []v1alpha1.KeyType{"ED25519"}
	s.Spec.Profile.Annotations = []string{"example.com/known"}
	s.Spec.Profile.Rules = []v1alpha1.ProfileRule{{Expression: `!("banned" in pod.metadata.labels)`, Reason: "Banned", Message: "this pod is banned"}}
	w.declare(t, s)
	pod, banned := w.pod(t, "web-1", nil), w.pod(t, "banned", map[string]string{"banned": "yes"})
	for name, tc := range map[string]struct {
		key         pki.KeyType
		pod         *corev1.Pod
		annotations map[string]string
		want        string
	}{
		"fine":       {pki.Ed25519, pod, map[string]string{"example.com/known": "x"}, "Issued Issued"},
		"key":        {pki.ECDSAP256, pod, nil, "Denied UnsupportedKeyType"},
		"annotation": {pki.Ed25519, pod, map[string]string{"example.com/unknown": "x"}, "Denied InvalidUnverifiedUserAnnotations"},
		"rule":       {pki.Ed25519, banned, nil, "Denied Banned"},
	} {
		request := w.requestOf(t, tc.pod, name, newKey(t, tc.key))
		request.Spec.UnverifiedUserAnnotations = tc.annotations
		w.create(t, request)
		if got := w.answered(t, name); condition(got) != tc.want {
			t.Errorf("%s: %s, want %s", name, condition(got), tc.want)
		}
	}
	counted := w.signer(t, w.namespace, "has counted", func(s *v1alpha1.Signer) bool { return s.Status.Issued+s.Status.Refused == 4 })
	if counted.Status.Issued != 1 || counted.Status.Refused != 3 || time.Since(counted.Status.LastIssuedTime.Time) > time.Hour {
		t.Errorf("status %+v", counted.Status)
	}
}
