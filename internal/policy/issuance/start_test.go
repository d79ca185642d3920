package issuance_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

var backoff = issuance.Backoff{Min: hour, Max: 32 * hour}

// TestChecks changes one property of a good situation at a time, and checks
// both the decision to issue and the readiness.
func TestChecks(t *testing.T) {
	tests := []struct {
		reason  string
		change  func(*world)
		at      time.Duration // after the certificate was issued
		start   string        // reason to issue
		ready   string        // reason not to be ready
		message string        // part of both messages
	}{
		{reason: "nothing changed"},
		{reason: "no Secret", change: func(w *world) { w.secret = nil }, start: "DoesNotExist", ready: "DoesNotExist", message: "Secret does not exist"},
		{reason: "no data", change: func(w *world) { w.secret.Data = nil }, start: "MissingData", ready: "MissingData", message: "does not contain any data"},
		{reason: "no key", change: without(corev1.TLSPrivateKeyKey), start: "MissingData", ready: "MissingData", message: "does not contain a private key"},
		{reason: "no certificate", change: without(corev1.TLSCertKey), start: "MissingData", ready: "MissingData", message: "does not contain a certificate"},
		{reason: "a broken key", change: with(corev1.TLSPrivateKeyKey, "?"), start: "InvalidKeyPair", ready: "InvalidKeyPair", message: "invalid private key"},
		{reason: "a broken certificate", change: with(corev1.TLSCertKey, "?"), start: "InvalidCertificate", ready: "InvalidCertificate", message: "invalid certificate"},
		{reason: "another key", change: otherKey, start: "InvalidKeyPair", ready: "InvalidKeyPair", message: "does not belong to the certificate"},
		{reason: "a temporary certificate", change: interim, start: "TemporaryCertificate", ready: "TemporaryCertificate", message: "no client trusts"},
		{
			reason: "a temporary certificate that nothing marks",
			change: func(w *world) { interim(w); w.secret.Annotations = nil },
			start:  "TemporaryCertificate", ready: "TemporaryCertificate", message: "no client trusts",
		},
		{reason: "a good certificate that somebody has marked", change: annotate(secret.TemporaryAnnotation, "true")},

		{reason: "another issuer's name", change: annotate(cmv1.IssuerNameAnnotationKey, "old"), start: "IncorrectIssuer", ready: "IncorrectIssuer", message: `"Issuer.cert-manager.io/old"`},
		{reason: "another issuer's kind", change: annotate(cmv1.IssuerKindAnnotationKey, "ClusterIssuer"), start: "IncorrectIssuer", ready: "IncorrectIssuer", message: `"ClusterIssuer.cert-manager.io/ca"`},
		{reason: "the defaults spelled out", change: func(w *world) {
			annotate(cmv1.IssuerKindAnnotationKey, "Issuer")(w)
			annotate(cmv1.IssuerGroupAnnotationKey, "cert-manager.io")(w)
		}},
		{reason: "annotations that are empty", change: annotate(cmv1.IssuerNameAnnotationKey, ""), start: "IncorrectIssuer", ready: "IncorrectIssuer"},
		{reason: "no annotations at all", change: func(w *world) { w.secret.Annotations = nil }},
		{
			reason: "no annotations at all, but a ClusterIssuer",
			change: func(w *world) {
				w.secret.Annotations = nil
				w.crt.Spec.IssuerRef.Kind, w.requests[0].Spec.IssuerRef.Kind = "ClusterIssuer", "ClusterIssuer"
			},
			start: "IncorrectIssuer", ready: "IncorrectIssuer",
		},
		{reason: "another Certificate's", change: annotate(cmv1.CertificateNameKey, "api"), start: "IncorrectCertificate", ready: "IncorrectCertificate", message: `Secret was issued for "api"`},
		{reason: "another kind of key", change: func(w *world) { w.crt.Spec.PrivateKey.Size = 384 }, start: "SecretMismatch", ready: "SecretMismatch", message: "[spec.privateKey.size]"},
		{
			reason: "a key that is not the request's",
			change: func(w *world) { w.requests[0] = w.requestOfRevision(1) },
			start:  "SecretMismatch", ready: "SecretMismatch", message: "does not match the current CertificateRequest",
		},
		{
			reason: "a request that nobody can read",
			change: func(w *world) { w.requests[0].Spec.Request = []byte("?") },
			start:  "InvalidCertificateRequest", ready: "InvalidCertificateRequest",
		},
		{reason: "another name", change: rename, start: "RequestChanged", ready: "RequestChanged", message: "[spec.dnsNames]"},
		{reason: "another name, and the request is gone", change: func(w *world) { rename(w); w.requests = nil }, start: "SecretMismatch", ready: "SecretMismatch", message: "[spec.dnsNames]"},
		{reason: "the request is gone", change: func(w *world) { w.requests = nil }},
		{reason: "restored without a status and requests", change: func(w *world) { w.requests, w.crt.Status = nil, cmv1.CertificateStatus{} }},

		{reason: "just before renewal", at: 60*hour - time.Second},
		{reason: "due for renewal", at: 60 * hour, start: "Renewing", message: "renewal was scheduled at 2026-03-04T00:00:00Z"},
		{reason: "in its last second", at: life, start: "Renewing"},
		{reason: "expired", at: life + time.Second, start: "Renewing", ready: "Expired"},
		{
			reason: "expired, and renewed by hand", at: life + time.Second, ready: "Expired",
			change: func(w *world) {
				w.crt.Spec.Renewal = &cmv1.CertificateRenewal{Policy: cmv1.CertificateRenewalPolicyDisabled}
			},
		},
		{
			reason: "the Secret belongs to somebody else", ready: "IncorrectCertificate", message: `belongs to Certificate "older"`,
			change: func(w *world) { w.owner, w.secret = newCertificate("older"), nil },
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			if tc.change != nil {
				tc.change(w)
			}
			start := backoff.Decide(w.situation(), now.Add(tc.at))
			if start.Why.Reason != tc.start || !strings.Contains(start.Why.Message+start.Held, tc.message) {
				t.Errorf("starts because of %+v, held %q, want %q %q", start.Why, start.Held, tc.start, tc.message)
			}
			ready := issuance.Ready(w.situation(), now.Add(tc.at))
			if ready.Problem.Reason != tc.ready || tc.ready != "" && !strings.Contains(ready.Problem.Message, tc.message) {
				t.Errorf("not ready because of %+v, want %q", ready.Problem, tc.ready)
			}
		})
	}
}

func (w *world) requestOfRevision(n int) *cmv1.CertificateRequest {
	cr := w.newRequest(newKey(w.t, pki.ECDSAP256))
	revision(cr, n)
	return cr
}

func with(key, value string) func(*world) {
	return func(w *world) { w.secret.Data[key] = []byte(value) }
}

func without(key string) func(*world) { return func(w *world) { delete(w.secret.Data, key) } }

func annotate(key, value string) func(*world) {
	return func(w *world) { w.secret.Annotations[key] = value }
}

// interim puts a temporary certificate into the Secret.
func interim(w *world) {
	data, err := w.temporary(w.requests[0], now)
	if err != nil {
		w.t.Fatal(err)
	}
	content, err := secret.Interim(w.crt, data, w.key)
	if err != nil {
		w.t.Fatal(err)
	}
	applied, err := content.Apply(secret.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.secret.Annotations, w.secret.Data = applied.Annotations, applied.Data
}

func otherKey(w *world) {
	data, err := pki.EncodePrivateKey(newKey(w.t, pki.ECDSAP256))
	if err != nil {
		w.t.Fatal(err)
	}
	w.secret.Data[corev1.TLSPrivateKeyKey] = data
}

func rename(w *world) { w.crt.Spec.DNSNames = []string{"example.org"} }

func noSecret(w *world) { w.secret = nil }

func failures(n int, last time.Duration) func(*world) {
	return func(w *world) {
		w.crt.Status.LastFailureTime = ptr.To(metav1.NewTime(now.Add(last)))
		if n >= 0 {
			w.crt.Status.FailedIssuanceAttempts = &n
		}
	}
}

// What holds an issuance back, and until when.
func TestStartHeld(t *testing.T) {
	at := 10 * hour
	tests := []struct {
		reason string
		change []func(*world)
		starts bool
		held   string
		again  time.Duration // after the certificate was issued; 0: not by itself
	}{
		{reason: "nothing to do until renewal", again: 60 * hour},
		{reason: "never failed", change: []func(*world){noSecret}, starts: true},
		{reason: "failed once", change: []func(*world){noSecret, failures(1, at)}, held: "the last issuance failed", again: at + hour},
		{reason: "failed once, an hour ago", change: []func(*world){noSecret, failures(1, at-hour)}, starts: true},
		{reason: "failed, and nobody counted", change: []func(*world){noSecret, failures(-1, at)}, held: "failed", again: at + hour},
		{reason: "failed, and counted wrong", change: []func(*world){noSecret, failures(0, at)}, held: "failed", again: at + hour},
		{reason: "failed twice", change: []func(*world){noSecret, failures(2, at)}, held: "failed", again: at + 2*hour},
		{reason: "failed three times", change: []func(*world){noSecret, failures(3, at)}, held: "failed", again: at + 4*hour},
		{reason: "failed six times", change: []func(*world){noSecret, failures(6, at)}, held: "failed", again: at + 32*hour},
		{reason: "failed forever", change: []func(*world){noSecret, failures(1<<40, at)}, held: "failed", again: at + 32*hour},
		{reason: "failed with the same spec", change: []func(*world){noSecret, failures(1, at), failedRequest}, held: "failed", again: at + hour},
		{reason: "failed, and then corrected", change: []func(*world){noSecret, failures(1, at), failedRequest, rename}, starts: true},
		{reason: "failed, and then what is not asked of the issuer", change: []func(*world){noSecret, failures(1, at), failedRequest, spec(func(s *cmv1.CertificateSpec) { s.RenewBefore = &metav1.Duration{Duration: hour} })}, held: "failed", again: at + hour},
		{reason: "failed, and then another kind of key", change: []func(*world){noSecret, failures(1, at), failedRequest, spec(func(s *cmv1.CertificateSpec) { s.PrivateKey.Size = 384 })}, starts: true},
		{reason: "failed, and then no duration", change: []func(*world){noSecret, failures(1, at), failedRequest, spec(func(s *cmv1.CertificateSpec) { s.Duration = nil })}, starts: true},
		{reason: "failed, and then another signature", change: []func(*world){noSecret, failures(1, at), failedRequest, spec(func(s *cmv1.CertificateSpec) { s.SignatureAlgorithm = cmv1.ECDSAWithSHA384 })}, starts: true},
		{reason: "failed, and then no usages in the request", change: []func(*world){noSecret, failures(1, at), failedRequest, spec(func(s *cmv1.CertificateSpec) { s.EncodeUsagesInRequest = ptr.To(false) })}, starts: true},
		{reason: "failed, and then constraints", change: []func(*world){noSecret, failures(1, at), failedRequest, spec(func(s *cmv1.CertificateSpec) {
			s.NameConstraints = &cmv1.NameConstraints{Permitted: &cmv1.NameConstraintItem{DNSDomains: []string{"example.com"}}}
		})}, starts: true},
		{reason: "failed without a request", change: []func(*world){noSecret, failedWithout}, held: "failed", again: at + hour},
		{reason: "failed without a request, and then changed", change: []func(*world){noSecret, failedWithout, func(w *world) { w.crt.Generation++ }}, starts: true},
		{reason: "failed, and something else changed", change: []func(*world){noSecret, failedWithout, failedRequest, func(w *world) { w.crt.Generation++ }}, held: "failed", again: at + hour},
		{reason: "already being issued", change: []func(*world){noSecret, issuing}},
		{reason: "being deleted", change: []func(*world){noSecret, deleted}},
		{reason: "another one's Secret", change: []func(*world){noSecret, func(w *world) { w.owner = newCertificate("api") }}, held: `belongs to Certificate "api"`, again: at + 3*time.Minute},
		{reason: "its own Secret", change: []func(*world){noSecret, func(w *world) { w.owner = w.crt }}, starts: true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			for _, change := range tc.change {
				change(w)
			}
			start := backoff.Decide(w.situation(), now.Add(at))
			if (tc.held == "") != (start.Held == "") || !strings.Contains(start.Held, tc.held) {
				t.Errorf("held %q, want %q", start.Held, tc.held)
			}
			if starts := !start.Why.None(); starts != tc.starts {
				t.Errorf("starts: %v, want %v", starts, tc.starts)
			}
			if tc.again == 0 != start.Again.IsZero() || tc.again != 0 && !start.Again.Equal(now.Add(tc.again)) {
				t.Errorf("again %v, want after %v", start.Again, tc.again)
			}
		})
	}
}

func spec(change func(*cmv1.CertificateSpec)) func(*world) {
	return func(w *world) { change(&w.crt.Spec) }
}

func failedWithout(w *world) {
	backoff.SetFailed(w.crt, issuance.Finding{Reason: "RequestFailed"}, now.Add(10*hour))
}

func issuing(w *world) { issuance.SetIssuing(w.crt, issuance.Finding{Reason: "Test"}, now) }

func deleted(w *world) { w.crt.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }

// failedRequest adds a failed request for the next certificate, made before the
// Certificate was changed.
func failedRequest(w *world) {
	cr := w.newRequest(newKey(w.t, pki.ECDSAP256))
	condition(cr, cmv1.CertificateRequestConditionReady, "False", "Failed", now)
	w.requests = append(w.requests, cr)
}

// Renewal waits for a window, and for the next one if that is missed. Other
// reasons to issue do not.
func TestStartKeepsToWindows(t *testing.T) {
	windows := func(cron string) func(*world) { // the certificate is due on 4 March at midnight, and ends on 5 March at noon
		return func(w *world) {
			w.crt.Spec.Renewal = &cmv1.CertificateRenewal{Windows: []cmv1.CertificateRenewalWindows{{Cron: cron, WindowDuration: &metav1.Duration{Duration: hour}}}}
		}
	}
	tests := []struct {
		reason string
		change []func(*world)
		at     time.Duration // after it was due
		starts string
		warns  string
		again  time.Duration
	}{
		{reason: "before the window", change: []func(*world){windows("0 3 * * *")}, again: 3 * hour},
		{reason: "in the window", change: []func(*world){windows("0 3 * * *")}, at: 3 * hour, starts: "Renewing"},
		{reason: "at the end of the window", change: []func(*world){windows("0 3 * * *")}, at: 4*hour - 1, starts: "Renewing"},
		{reason: "after the window", change: []func(*world){windows("0 3 * * *")}, at: 4 * hour, again: 27 * hour},
		{reason: "a window is open when it is due", change: []func(*world){windows("30 23 * * *")}, starts: "Renewing"},
		{reason: "no window", change: []func(*world){windows("0 13 5 * *")}, starts: "Renewing", warns: "none of spec.renewal.windows is open between 2026-03-04T00:00:00Z"},
		{reason: "the last window is missed", change: []func(*world){windows("0 3 4 * *")}, at: 5 * hour, starts: "Renewing", warns: "none of spec.renewal.windows"},
		{reason: "a window nobody can read", change: []func(*world){windows("?")}, starts: "Renewing", warns: "spec.renewal.windows[0]: cron: Invalid"},
		{reason: "the Secret is gone", change: []func(*world){windows("0 3 * * *"), noSecret}, starts: "DoesNotExist"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			for _, change := range tc.change {
				change(w)
			}
			due := now.Add(60 * hour)
			start := backoff.Decide(w.situation(), due.Add(tc.at))
			if start.Why.Reason != tc.starts || (tc.warns == "") != start.Warning.None() || !strings.Contains(start.Warning.Message, tc.warns) {
				t.Errorf("starts because of %+v, warns %+v, want %q, %q", start.Why, start.Warning, tc.starts, tc.warns)
			}
			if tc.again != 0 && !start.Again.Equal(due.Add(tc.again)) {
				t.Errorf("again at %v, want %v", start.Again, due.Add(tc.again))
			}
			if ready := issuance.Ready(w.situation(), due.Add(tc.at)); tc.again != 0 && !ready.RenewalTime.Time.Equal(due.Add(tc.again)) {
				t.Errorf("status.renewalTime %v, want %v", ready.RenewalTime, due.Add(tc.again))
			}
		})
	}
}

func TestSetRenewing(t *testing.T) {
	w := newWorld(t)
	issuance.SetRenewing(w.crt, now)
	got := certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing)
	if got == nil || got.Status != "True" || got.Reason != "ManuallyTriggered" || got.Message != "Certificate re-issuance manually triggered" || got.ObservedGeneration != 3 {
		t.Errorf("condition %+v", got)
	}
	issuance.SetRenewing(w.crt, now.Add(hour))
	if got = certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing); !got.LastTransitionTime.Time.Equal(now) {
		t.Error("asking twice looks like another issuance")
	}
}

func TestReadyTimes(t *testing.T) {
	w := newWorld(t)
	r := issuance.Ready(w.situation(), now)
	issuance.SetReadiness(w.crt, r, now)
	status := w.crt.Status
	if !status.NotBefore.Time.Equal(now) || !status.NotAfter.Time.Equal(now.Add(life)) || !status.RenewalTime.Time.Equal(now.Add(60*hour)) {
		t.Errorf("times %v, %v, %v", status.NotBefore, status.NotAfter, status.RenewalTime)
	}
	got := certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionReady)
	if got.Status != "True" || got.Reason != "Ready" || got.Message != "Certificate is up to date and has not expired" {
		t.Errorf("condition %+v", got)
	}
	if again := issuance.Ready(w.situation(), r.Again); again.Problem.Reason != issuance.ReasonExpired || !again.Again.IsZero() {
		t.Errorf("once Again has come: %+v", again)
	}
	w.secret.Data[corev1.TLSCertKey] = nil
	issuance.SetReadiness(w.crt, issuance.Ready(w.situation(), now), now)
	if w.crt.Status.NotAfter != nil || w.crt.Status.RenewalTime != nil {
		t.Error("times of no certificate")
	}
}

// A renewal under way does not make the Certificate unready.
func TestReadyWhileIssuing(t *testing.T) {
	w := newWorld(t)
	w.next(now.Add(60 * hour))
	if r := issuance.Ready(w.situation(), now.Add(61*hour)); !r.Problem.None() {
		t.Errorf("not ready: %+v", r.Problem)
	}
}

func TestOwner(t *testing.T) {
	at := func(name string, created time.Duration) *cmv1.Certificate {
		crt := newCertificate(name)
		crt.CreationTimestamp = metav1.NewTime(now.Add(created))
		return crt
	}
	gone := at("gone", -hour)
	gone.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	says := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{cmv1.CertificateNameKey: name}}}
	}
	tests := []struct {
		reason string
		certs  []*cmv1.Certificate
		secret *corev1.Secret
		want   string
	}{
		{"the oldest", []*cmv1.Certificate{at("b", 0), at("a", hour)}, nil, "b"},
		{"of the same age", []*cmv1.Certificate{at("b", 0), at("a", 0)}, nil, "a"},
		{"the one that the Secret names", []*cmv1.Certificate{at("b", 0), at("a", hour)}, says("a"), "a"},
		{"the Secret names somebody else", []*cmv1.Certificate{at("b", 0), at("a", hour)}, says("c"), "b"},
		{"the oldest is on its way out", []*cmv1.Certificate{gone, at("a", hour)}, says("gone"), "a"},
		{"nobody", []*cmv1.Certificate{gone}, nil, ""},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got := issuance.Owner(tc.certs, tc.secret)
			if (got == nil) != (tc.want == "") || got != nil && got.Name != tc.want {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
}
