package issuance_test

import (
	"slices"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

func TestPlanKey(t *testing.T) {
	w := newWorld(t)
	waiting := func(name string, kind pki.KeyType, age time.Duration) *corev1.Secret {
		s, err := issuance.NextKeySecret(w.crt, newKey(t, kind), now)
		if err != nil {
			t.Fatal(err)
		}
		s.Name, s.CreationTimestamp = name, metav1.NewTime(now.Add(-age))
		return s
	}
	a, b, large := waiting("a", pki.ECDSAP256, 2*hour), waiting("b", pki.ECDSAP256, hour), waiting("large", pki.ECDSAP384, hour)
	broken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
	tests := []struct {
		reason  string
		change  func(*cmv1.Certificate)
		secrets []*corev1.Secret
		target  *corev1.Secret
		delete  []string
		name    string
		does    string // generate, reuse or refuse
		event   string
	}{
		{reason: "nothing is issued", change: notIssuing, secrets: []*corev1.Secret{a, b}, delete: []string{"a", "b"}},
		{reason: "two of one second", secrets: []*corev1.Secret{waiting("d", pki.ECDSAP256, hour), waiting("c", pki.ECDSAP256, hour)}, delete: []string{"d"}, name: "c"},
		{reason: "being deleted", change: func(c *cmv1.Certificate) { c.DeletionTimestamp = ptr.To(metav1.Now()) }, secrets: []*corev1.Secret{a}, delete: []string{"a"}},
		{reason: "a new one", target: w.secret, does: "generate"},
		{reason: "there is one", secrets: []*corev1.Secret{a}, name: "a"},
		{reason: "there are two", secrets: []*corev1.Secret{b, a}, name: "a", delete: []string{"b"}},
		{reason: "there are two, and the status names one", change: names("b"), secrets: []*corev1.Secret{a, b}, name: "b", delete: []string{"a"}},
		{reason: "the status names one that is gone", change: names("gone"), does: "generate"},
		{reason: "one of another size", secrets: []*corev1.Secret{large}, delete: []string{"large"}, event: "Deleted"},
		{reason: "a broken one", secrets: []*corev1.Secret{broken}, delete: []string{"broken"}, event: "Deleted"},
		{reason: "never, and nothing to keep", change: never, does: "generate"},
		{reason: "never, and the Secret is empty", change: never, target: broken, does: "generate"},
		{reason: "never", change: never, target: w.secret, does: "reuse", event: "Reused"},
		{reason: "never, and a broken key", change: never, target: &corev1.Secret{Data: map[string][]byte{"tls.key": []byte("?")}}, does: "generate", event: "DecodeFailed"},
		{reason: "never, and another size", change: func(c *cmv1.Certificate) { never(c); c.Spec.PrivateKey.Size = 384 }, target: w.secret, does: "refuse"},
		{reason: "never, and certificate is missing", change: never, target: onlyKey(w.secret), does: "reuse", event: "Reused"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			crt := w.crt.DeepCopy()
			issuance.SetIssuing(crt, issuance.Finding{Reason: "Test"}, now)
			if tc.change != nil {
				tc.change(crt)
			}
			plan := issuance.PlanKey(issuance.Situation{Certificate: crt, Secret: tc.target}, tc.secrets)
			does := map[bool]string{true: "generate"}[plan.Generate] + map[bool]string{true: "reuse"}[plan.Reuse != nil] + map[bool]string{true: "refuse"}[!plan.Refusal.None()]
			if !slices.Equal(plan.Delete, tc.delete) || ptr.Deref(plan.Name, "") != tc.name || does != tc.does || plan.Event.Reason != tc.event {
				t.Errorf("plan %+v, does %q", plan, does)
			}
			if plan.Reuse != nil && !pki.SameKey(plan.Reuse.Public(), w.key.Public()) {
				t.Error("reuses another key")
			}
		})
	}
}

func notIssuing(c *cmv1.Certificate) { c.Status.Conditions = nil }

func names(secret string) func(*cmv1.Certificate) {
	return func(c *cmv1.Certificate) { c.Status.NextPrivateKeySecretName = &secret }
}

func never(c *cmv1.Certificate) { c.Spec.PrivateKey.RotationPolicy = cmv1.RotationPolicyNever }

func onlyKey(s *corev1.Secret) *corev1.Secret {
	s = s.DeepCopy()
	s.Data[corev1.TLSCertKey] = nil
	return s
}
