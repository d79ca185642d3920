package issuance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

func TestAdopt(t *testing.T) {
	tests := []struct {
		reason  string
		started string
		change  func(*world)
		at      time.Duration
		want    bool
	}{
		{reason: "the Secret is back", started: "DoesNotExist", want: true},
		{reason: "its data is back", started: "MissingData", want: true},
		{reason: "somebody wants a new one", started: "ManuallyTriggered"},
		{reason: "a renewal", started: "Renewing"},
		{reason: "the Secret is not back", started: "DoesNotExist", change: noSecret},
		{reason: "the Secret is back with another name", started: "DoesNotExist", change: rename},
		{reason: "the Secret is back from long ago", started: "DoesNotExist", at: 61 * hour},
		{reason: "the Secret is back, without requests", started: "DoesNotExist", change: func(w *world) { w.requests = nil }, want: true},
		{reason: "the new one is there already", started: "DoesNotExist", change: func(w *world) { _, cr := w.next(now); w.answer(cr, now) }},
		{reason: "the new one is there already, but nobody has seen the answer", started: "DoesNotExist", change: func(w *world) {
			key, cr := w.next(now)
			answer := cr.DeepCopy()
			w.answer(answer, now)
			w.secret = w.newSecret(key, answer)
			w.requests = w.requests[1:]
			w.crt.Status.Revision = nil
			revision(cr, 1)
		}},
		{reason: "a request waits, with another key", started: "DoesNotExist", change: func(w *world) { w.next(now) }, want: true},
		{reason: "the Secret is somebody else's", started: "DoesNotExist", change: func(w *world) { w.owner = newCertificate("api") }},
		{reason: "being deleted", started: "DoesNotExist", change: deleted},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			if tc.change != nil {
				tc.change(w)
			}
			issuance.SetIssuing(w.crt, issuance.Finding{Reason: tc.started}, now)
			got := issuance.Adopt(w.situation(), now.Add(tc.at))
			if got.None() == tc.want {
				t.Errorf("adopts: %+v, want %v", got, tc.want)
			}
			if tc.want {
				issuance.SetAbandoned(w.crt)
				if start := backoff.Decide(w.situation(), now.Add(tc.at)); !start.Why.None() {
					t.Errorf("starts again at once: %+v", start.Why)
				}
			}
		})
	}
	if w := newWorld(t); !issuance.Adopt(w.situation(), now).None() {
		t.Error("adopts although nothing is issued")
	}
}

// An issuance for a Secret that belongs to another Certificate ends, whatever
// has started it.
func TestYield(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		changes []func(*world)
		want    bool
	}{
		{"another one's Secret", []func(*world){issuing, others}, true},
		{"its own Secret", []func(*world){issuing}, false},
		{"nothing is issued", []func(*world){others}, false},
		{"being deleted", []func(*world){issuing, others, deleted}, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			for _, change := range tc.changes {
				change(w)
			}
			if got := issuance.Yield(w.situation()); got.None() == tc.want || tc.want && !strings.Contains(got.Message, `belongs to Certificate "api"`) {
				t.Errorf("yields: %+v, want %v", got, tc.want)
			}
		})
	}
}

func others(w *world) { w.owner = newCertificate("api") }

func TestRestoredRevision(t *testing.T) {
	w := newWorld(t)
	stray := func(name string, n int) *cmv1.CertificateRequest {
		cr := named(w.requests[0], name)
		cr.OwnerReferences[0].UID = "before the restore"
		revision(cr, n)
		return cr
	}
	other := stray("api-9", 9)
	other.Annotations[cmv1.CertificateNameKey] = "api"
	requests := []*cmv1.CertificateRequest{stray("web-3", 3), stray("web-4", 4), other}
	if got := issuance.RestoredRevision(w.crt, requests); got != nil {
		t.Errorf("revision %d, though the status has one", *got)
	}
	w.crt.Status.Revision = nil
	if got := issuance.RestoredRevision(w.crt, requests); got == nil || *got != 4 {
		t.Errorf("revision %v, want 4", got)
	}
	if got := issuance.RestoredRevision(w.crt, w.requests); got != nil {
		t.Errorf("revision %d of a request that is its own", *got)
	}
}

func TestTemporary(t *testing.T) {
	for _, isCA := range []bool{false, true} {
		w := newWorld(t)
		w.crt.Spec.IsCA = isCA
		key, cr := w.next(begin)
		data, err := w.temporary(cr, begin)
		if err != nil {
			t.Fatal(err)
		}
		certs, err := pki.ParseCertificates(data)
		if err != nil {
			t.Fatal(err)
		}
		cert := certs[0]
		if cert.Issuer.CommonName != "cert-manager.local" || cert.IsCA != isCA || !pki.SameKey(cert.PublicKey, key.Public()) || !slices.Equal(cert.DNSNames, w.crt.Spec.DNSNames) {
			t.Errorf("certificate %+v", cert.Subject)
		}
		content, err := secret.Interim(w.crt, data, key)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := content.Apply(secret.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: applied.Annotations}, Data: applied.Data}
		if ready := issuance.Ready(w.situation(), begin); ready.Problem.Reason != issuance.ReasonTemporary {
			t.Errorf("a temporary certificate looks ready: %+v", ready.Problem)
		}
		if step := issuance.Issue(w.situation(), key, begin).Step; step != issuance.Wait {
			t.Errorf("another temporary certificate: %v", step)
		}
	}
}

func TestMaintain(t *testing.T) {
	w := newWorld(t)
	if _, drift, err := issuance.Maintain(w.situation(), false, secret.Passwords{}, now); err != nil || drift != secret.MetadataMismatch {
		t.Errorf("a Secret without labels: %q, %v", drift, err)
	}
	for reason, change := range map[string]func(*world){
		"somebody else's": annotate(cmv1.CertificateNameKey, "api"), "empty": with(corev1.TLSCertKey, ""), "absent": noSecret, "being issued": issuing, "being deleted": deleted,
		"shared": func(w *world) { w.owner = newCertificate("api") },
	} {
		w := newWorld(t)
		change(w)
		if _, drift, err := issuance.Maintain(w.situation(), false, secret.Passwords{}, now); err != nil || drift != "" {
			t.Errorf("%s: %q, %v", reason, drift, err)
		}
	}
}
