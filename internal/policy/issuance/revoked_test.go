package issuance_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/revocation"
)

// revoke returns an index in which the present certificate is revoked.
func (w *world) revoke(reason pki.Reason) *revocation.Index {
	w.t.Helper()
	certs, err := pki.ParseBundle(w.secret.Data[corev1.TLSCertKey])
	if err != nil {
		w.t.Fatal(err)
	}
	index := revocation.NewIndex()
	index.Add(revocation.Act{UID: "1", Name: "leak", Revision: 1}, []revocation.Entry{revocation.EntryOf(certs[0], now.Add(hour), reason)})
	return index
}

// A certificate that was revoked because it was to be replaced is replaced at once, with
// another key in any case. One that is not to exist any more is not replaced by itself.
func TestRevoked(t *testing.T) {
	for _, tc := range []struct {
		reason  pki.Reason
		replace bool
	}{
		{pki.ReasonUnspecified, false},
		{pki.ReasonKeyCompromise, true},
		{pki.ReasonCACompromise, true},
		{pki.ReasonAffiliationChanged, false},
		{pki.ReasonSuperseded, true},
		{pki.ReasonCessationOfOperation, false},
		{pki.ReasonPrivilegeWithdrawn, false},
	} {
		t.Run(tc.reason.String(), func(t *testing.T) {
			w := newWorld(t)
			never(w.crt)
			s := w.situation()
			s.Revoked = w.revoke(tc.reason)
			for _, at := range []time.Time{now.Add(2 * hour), now.Add(life + hour)} {
				start := backoff.Decide(s, at)
				if isStarted := start.Why.Reason == issuance.ReasonRevoked; isStarted != tc.replace || start.Why.None() != (start.Held != "") || !start.Again.IsZero() {
					t.Errorf("%+v", start)
				}
				ready := issuance.Ready(s, at)
				issuance.SetReadiness(w.crt, ready, at)
				got := certmanager.CertificateCondition(w.crt, issuance.ConditionRevoked)
				if ready.Problem.Reason != issuance.ReasonRevoked || got == nil || got.Reason != tc.reason.String() || !strings.Contains(got.Message, "Revocation leak") {
					t.Errorf("%+v: %+v", ready, got)
				}
				s.Revoked = revocation.NewIndex() // the second time: the certificate has ended, and its entry was deleted
			}
			if s.Revoked = nil; backoff.Decide(s, now.Add(2*hour)).Why.None() == tc.replace {
				t.Error("the decision depends on the revocations being read")
			}
			s.Revoked = w.revoke(tc.reason)
			issuance.SetRenewing(w.crt, now.Add(2*hour))
			if plan := issuance.PlanKey(s, nil); plan.Generate != tc.replace || (plan.Reuse == nil) != tc.replace {
				t.Errorf("%+v", plan)
			}
			reused, err := issuance.NextKeySecret(w.crt, w.key, now)
			if err != nil {
				t.Fatal(err)
			}
			if plan := issuance.PlanKey(s, []*corev1.Secret{reused}); (len(plan.Delete) == 1) != tc.replace {
				t.Errorf("a key that was chosen before: %+v", plan)
			}
			if issuance.SetIssued(w.crt); certmanager.CertificateCondition(w.crt, issuance.ConditionRevoked) != nil {
				t.Error("the next certificate counts as revoked")
			}
		})
	}
}

// A key that was revoked as compromised with another certificate is not used again.
func TestCompromisedKey(t *testing.T) {
	w := newWorld(t)
	never(w.crt)
	s := w.situation()
	s.Revoked = w.revoke(pki.ReasonKeyCompromise)
	again := w.newRequest(w.key)
	w.answer(again, now)
	w.secret.Data[corev1.TLSCertKey] = again.Status.Certificate
	if start := backoff.Decide(s, now.Add(2*hour)); !start.Why.None() {
		t.Fatalf("%+v", start)
	}
	issuance.SetRenewing(w.crt, now.Add(2*hour))
	if plan := issuance.PlanKey(s, nil); !plan.Generate {
		t.Errorf("%+v", plan)
	}
}

// An issuer that answers with a revoked certificate does not cause one issuance after another.
func TestRevokedAnswer(t *testing.T) {
	w := newWorld(t)
	s := w.situation()
	s.Revoked = w.revoke(pki.ReasonSuperseded)
	issuance.SetIssuing(w.crt, issuance.Finding{Reason: issuance.ReasonRevoked}, now)
	w.crt.Status.NextPrivateKeySecretName = ptr.To("next")
	answered := w.requests[0].DeepCopy()
	answered.Annotations[cmv1.CertificateRequestRevisionAnnotationKey] = "2"
	delete(answered.Annotations, cmv1.CertificateRequestPrivateKeyAnnotationKey)
	s.Requests = append(s.Requests, answered)
	if got := issuance.Issue(s, w.key, now.Add(hour)); got.Step != issuance.Fail || !strings.Contains(got.Why.Message, "was revoked on") {
		t.Errorf("%+v", got)
	}
}
