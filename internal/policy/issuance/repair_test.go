package issuance_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// issueAt issues a certificate for a reason, as a controller does.
func (w *world) issueAt(why issuance.Finding, at time.Time) {
	w.t.Helper()
	issuance.SetIssuing(w.crt, why, at)
	key := newKey(w.t, pki.ECDSAP256)
	cr := w.newRequest(key)
	cr.CreationTimestamp = metav1.NewTime(at)
	issuance.MarkRepair(w.situation(), cr, at)
	w.answer(cr, at)
	w.requests = []*cmv1.CertificateRequest{cr} // as with a history of 1
	w.secret = w.newSecret(key, cr)
	issuance.SetIssued(w.crt)
}

// damages are what other programs do to Secrets.
func damages(w *world) map[string]func() {
	foreign := newWorld(w.t)
	by := func(change func(*corev1.Secret)) func() {
		return func() {
			s := w.secret.DeepCopy()
			change(s)
			s.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: "cert-manager-certificates-issuing", Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:ca.crt":{}}}`)},
				{Manager: "copier", Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: now.Add(time.Hour)}, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:tls.crt":{},"f:tls.key":{}}}`)},
				{Manager: "labeller", Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: now.Add(2 * time.Hour)}, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)},
			}
			w.secret = s
		}
	}
	return map[string]func(){
		"deleted":         func() { w.secret = nil },
		"emptied":         by(func(s *corev1.Secret) { s.Data = nil }),
		"another pair":    by(func(s *corev1.Secret) { s.Data = foreign.secret.Data }),
		"another key":     by(func(s *corev1.Secret) { s.Data[corev1.TLSPrivateKeyKey] = foreign.secret.Data[corev1.TLSPrivateKeyKey] }),
		"nonsense":        by(func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte("?") }),
		"another issuer":  by(func(s *corev1.Secret) { s.Annotations[cmv1.IssuerNameAnnotationKey] = "other" }),
		"name of another": by(func(s *corev1.Secret) { s.Annotations[cmv1.CertificateNameKey] = "other" }),
	}
}

// A Secret that loses its certificate again and again costs a few certificates an
// hour, with growing pauses, and the Certificate says why.
func TestRepairsAreApart(t *testing.T) {
	for name := range damages(newWorld(t)) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			damage := damages(w)[name]
			w.requests[0].CreationTimestamp = metav1.NewTime(now)
			var issued []time.Duration
			held := ""
			for after := time.Second; after < 3*time.Hour; {
				damage()
				at := now.Add(after)
				start := backoff.Decide(w.situation(), at)
				if !start.Why.None() {
					issued = append(issued, after)
					w.issueAt(start.Why, at)
					after += time.Second
					continue
				}
				held = start.Held
				ready := issuance.Ready(w.situation(), at)
				if ready.Overwritten.None() || !strings.HasSuffix(ready.Problem.Message, held) {
					t.Fatalf("readiness %+v", ready)
				}
				if !start.Again.After(at) {
					t.Fatalf("held until %v", start.Again)
				}
				after = start.Again.Sub(now)
			}
			if len(issued) != 5 || issued[0] != time.Second {
				t.Errorf("issued after %v", issued)
			}
			want := `it was last written by "copier"`
			if name == "deleted" {
				want = "another program has deleted it"
			}
			if !strings.Contains(held, want) {
				t.Errorf("held: %s", held)
			}
			// A changed spec, and another Secret, are not the other program's.
			w.crt.Generation++
			if start := backoff.Decide(w.situation(), now.Add(3*time.Hour)); start.Why.None() {
				t.Errorf("after a change of the spec: %+v", start)
			}
		})
	}
}

// Single repairs are made at once: the first, and any after a calm time.
func TestSingleRepairs(t *testing.T) {
	w := newWorld(t)
	at := now
	w.requests[0].CreationTimestamp = metav1.NewTime(at)
	for i, after := range []time.Duration{time.Second, 41 * time.Minute, 41 * time.Minute, 11 * time.Minute} {
		at = at.Add(after)
		w.secret = nil
		start := backoff.Decide(w.situation(), at)
		if start.Why.None() {
			t.Fatalf("%d: %+v", i, start)
		}
		w.issueAt(start.Why, at)
		want := "1 of generation 3"
		if i == 3 {
			want = "2 of generation 3"
		}
		if got := w.requests[0].Annotations[issuance.RepairsAnnotation]; got != want {
			t.Errorf("%d: %q", i, got)
		}
	}
	// A renewal by hand ends the series.
	w.issueAt(issuance.Finding{Reason: issuance.ReasonManuallyTriggered}, at.Add(time.Second))
	w.secret = nil
	if start := backoff.Decide(w.situation(), at.Add(2*time.Second)); start.Why.None() {
		t.Errorf("after a renewal by hand: %+v", start)
	}
	// What others write into the annotation delays nothing for long.
	for _, text := range []string{"", "x", "-7 of generation 3", fmt.Sprint(1<<40, " of generation 3"), "1 of generation 99"} {
		w.requests[0].Annotations[issuance.RepairsAnnotation] = text
		if start := backoff.Decide(w.situation(), at.Add(33*time.Hour)); start.Why.None() {
			t.Errorf("%q: %+v", text, start)
		}
	}
	w.crt.Annotations = map[string]string{issuance.RepairsAnnotation: "9 of generation 3"}
	if cr := w.newRequest(w.key); cr.Annotations[issuance.RepairsAnnotation] != "" {
		t.Error("copied from the Certificate")
	}
	if certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing) != nil {
		t.Error("still issuing")
	}
}
