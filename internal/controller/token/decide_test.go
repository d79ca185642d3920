package token

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestDecide(t *testing.T) {
	full := func() *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Annotations: map[string]string{
				corev1.ServiceAccountNameKey: "a", corev1.ServiceAccountUIDKey: "u",
			}},
			Type: Type,
			Data: map[string][]byte{"token": []byte("t"), "ca.crt": []byte("ca"), "namespace": []byte("ns")},
		}
	}
	for _, tt := range []struct {
		reason  string
		change  func(*corev1.Secret)
		account types.UID
		want    verdict
	}{
		{"as it is to be", func(*corev1.Secret) {}, "u", leave},
		{"more in it", func(s *corev1.Secret) { s.Data["other"] = nil }, "u", leave},
		{"new", func(s *corev1.Secret) { s.Data = nil; delete(s.Annotations, corev1.ServiceAccountUIDKey) }, "u", fill},
		{"no token", func(s *corev1.Secret) { delete(s.Data, "token") }, "u", fill},
		{"a token from before", func(s *corev1.Secret) { delete(s.Annotations, corev1.ServiceAccountUIDKey) }, "u", fill},
		{"other roots", func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("former") }, "u", fill},
		{"another namespace", func(s *corev1.Secret) { s.Data["namespace"] = []byte("other") }, "u", fill},
		{"immutable and complete", func(s *corev1.Secret) { s.Immutable = ptr.To(true) }, "u", leave},
		{"immutable and empty", func(s *corev1.Secret) { s.Immutable, s.Data = ptr.To(true), nil }, "u", refuse},
		{"the account does not exist", func(*corev1.Secret) {}, "", remove},
		{"the account was made again", func(*corev1.Secret) {}, "u2", remove},
		{"immutable, and the account does not exist", func(s *corev1.Secret) { s.Immutable = ptr.To(true) }, "", remove},
		{"being deleted", func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{} }, "", leave},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			secret := full()
			tt.change(secret)
			if got := decide(secret, tt.account, []byte("ca")); got != tt.want {
				t.Errorf("verdict %d, want %d", got, tt.want)
			}
		})
	}
}
