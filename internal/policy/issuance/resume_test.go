package issuance_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// unannounced takes back what the status says of the issuance, as it is until the
// first status is written.
func unannounced(w *world, _ *cmv1.CertificateRequest) {
	notIssuing(w.crt)
	w.crt.Status.NextPrivateKeySecretName = nil
}

func TestHeldUntil(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		changes []change
		stored  string // the name of a Secret with a key
		after   time.Duration
		held    bool
	}{
		{reason: "just requested", changes: []change{unannounced}, after: time.Second, held: true},
		{reason: "answered", changes: []change{unannounced, answered(begin)}, held: true},
		{reason: "long ago", changes: []change{unannounced}, after: 10 * time.Second},
		{reason: "in the future: a clock is wrong", changes: []change{unannounced}, after: -time.Second},
		{reason: "its key is stored", changes: []change{unannounced}, stored: "web-abc"},
		{reason: "another key is stored", changes: []change{unannounced}, stored: "web-xyz", held: true},
		{reason: "it has failed", changes: []change{unannounced, failedAt(begin)}},
		{reason: "its key has no name", changes: []change{unannounced, func(_ *world, cr *cmv1.CertificateRequest) {
			delete(cr.Annotations, cmv1.CertificateRequestPrivateKeyAnnotationKey)
		}}},
		{reason: "the status says that it is issued"},
		{reason: "no request", changes: []change{unannounced, func(w *world, _ *cmv1.CertificateRequest) { w.requests = w.requests[:1] }}},
		{reason: "being deleted", changes: []change{unannounced, func(w *world, _ *cmv1.CertificateRequest) { deleted(w) }}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			_, cr := w.next(begin)
			cr.CreationTimestamp = metav1.NewTime(begin)
			for _, change := range tc.changes {
				change(w, cr)
			}
			var keys []*corev1.Secret
			if tc.stored != "" {
				keys = append(keys, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: tc.stored}})
			}
			got := issuance.HeldUntil(w.situation(), keys, begin.Add(tc.after))
			if !got.IsZero() != tc.held || tc.held && !got.Equal(begin.Add(10*time.Second)) {
				t.Errorf("held until %v, want %v", got, tc.held)
			}
		})
	}
}

// stores puts the certificate of a request into the Secret.
func stores(w *world, cr *cmv1.CertificateRequest) {
	w.secret.Data[corev1.TLSCertKey] = cr.Status.Certificate
}

func TestIsFinished(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		changes []change
		want    bool
	}{
		{reason: "not written to the status", changes: []change{unannounced, answered(begin), stores}, want: true},
		{reason: "renewed by hand", changes: []change{answered(begin), stores, func(w *world, _ *cmv1.CertificateRequest) { w.crt.Status.NextPrivateKeySecretName = nil }}, want: true},
		{reason: "not in the Secret yet", changes: []change{unannounced, answered(begin)}},
		{reason: "no Secret", changes: []change{unannounced, answered(begin), func(w *world, _ *cmv1.CertificateRequest) { w.secret = nil }}},
		{reason: "not answered", changes: []change{unannounced}},
		{reason: "denied", changes: []change{unannounced, answered(begin), stores, denied(begin)}},
		{reason: "its key is stored: the usual way", changes: []change{answered(begin), stores}},
		{reason: "the Secret belongs to somebody else", changes: []change{unannounced, answered(begin), stores, func(w *world, _ *cmv1.CertificateRequest) { w.owner = newCertificate("api") }}},
		{reason: "being deleted", changes: []change{unannounced, answered(begin), stores, func(w *world, _ *cmv1.CertificateRequest) { deleted(w) }}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			_, cr := w.next(begin)
			for _, change := range tc.changes {
				change(w, cr)
			}
			if got := issuance.IsFinished(w.situation()); got != tc.want {
				t.Errorf("finished: %v, want %v", got, tc.want)
			}
		})
	}
}

// A request is created before the status names its key, which is then found by it.
func TestKeyOfRequest(t *testing.T) {
	w := newWorld(t)
	_, cr := w.next(begin)
	w.crt.Status.NextPrivateKeySecretName = nil
	older, its := w.nextKey(now), w.nextKey(begin)
	older.CreationTimestamp, its.CreationTimestamp = metav1.NewTime(now), metav1.NewTime(begin)
	cr.Annotations[cmv1.CertificateRequestPrivateKeyAnnotationKey] = its.Name
	keys := []*corev1.Secret{older, its}
	if plan := issuance.PlanKey(w.situation(), keys); ptr.Deref(plan.Name, "") != its.Name {
		t.Errorf("plan %+v, want the key of the request, %s", plan, its.Name)
	}
	w.crt.Status.NextPrivateKeySecretName = &older.Name
	if plan := issuance.PlanKey(w.situation(), keys); ptr.Deref(plan.Name, "") != older.Name {
		t.Errorf("plan %+v, want the key that the status names, %s", plan, older.Name)
	}
}

func (w *world) nextKey(at time.Time) *corev1.Secret {
	w.t.Helper()
	secret, err := issuance.NextKeySecret(w.crt, w.key, at)
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// Each attempt has a name of its own for its key, even with the same key, and any name
// of a Certificate leads to a valid one.
func TestNextKeyNames(t *testing.T) {
	w := newWorld(t)
	first := w.nextKey(now).Name
	if second := w.nextKey(now.Add(time.Nanosecond)).Name; first == second || !strings.HasPrefix(first, "web-") {
		t.Errorf("keys in %s and %s", first, second)
	}
	w.key = newKey(t, pki.ECDSAP256)
	if other := w.nextKey(now).Name; other == first {
		t.Errorf("another key in %s", other)
	}
	w.crt.Name = strings.Repeat("n", 241) + "." + strings.Repeat("n", 11)
	if wrong := validation.IsDNS1123Subdomain(w.nextKey(now).Name); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// Times in the API are whole seconds: what is answered in the second in which an
// issuance began is not older.
func TestAnsweredAtOnce(t *testing.T) {
	w := newWorld(t)
	at := begin.Add(700 * time.Millisecond)
	key, cr := w.next(at)
	denied(begin)(w, cr)
	if got := issuance.Issue(w.situation(), key, at); got.Step != issuance.Fail {
		t.Errorf("step %v because %q, want a failure", got.Step, got.Why.Message)
	}
}
