package issuer

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/requests"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type change func(*cmv1.CertificateRequest)

func requested(changes ...change) *cmv1.CertificateRequest {
	cr := &cmv1.CertificateRequest{}
	for _, change := range changes {
		change(cr)
	}
	return cr
}

func with(kind cmv1.CertificateRequestConditionType, status cmmeta.ConditionStatus, reason string) change {
	return func(cr *cmv1.CertificateRequest) {
		certmanager.SetRequestCondition(cr, kind, status, reason, "", metav1.NewTime(now))
	}
}

// The order is that of the signers that other programs know, and what is over
// stays over.
func TestStep(t *testing.T) {
	approved := with(cmv1.CertificateRequestConditionApproved, cmmeta.ConditionTrue, "Test")
	deny := with(cmv1.CertificateRequestConditionDenied, cmmeta.ConditionTrue, "Test")
	invalid := with(cmv1.CertificateRequestConditionInvalidRequest, cmmeta.ConditionTrue, "Test")
	ready := func(reason string) change {
		return with(cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, reason)
	}
	saidDenied := func(cr *cmv1.CertificateRequest) {
		at := metav1.NewTime(now)
		certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, engine.Denied.State.String(), engine.Denied.Message, at)
		cr.Status.FailureTime = &at
	}
	tests := []struct {
		reason string
		cr     *cmv1.CertificateRequest
		want   requests.Step
	}{
		{"new", requested(), requests.Await},
		{"approved", requested(approved), requests.Sign},
		{"approved, says False", requested(with(cmv1.CertificateRequestConditionApproved, cmmeta.ConditionFalse, "")), requests.Await},
		{"waiting", requested(approved, ready("Pending")), requests.Sign},
		{"with a reason that nobody knows", requested(approved, ready("Initializing")), requests.Sign},
		{"denied", requested(deny), requests.Deny},
		{"denied and invalid", requested(deny, invalid), requests.Deny},
		{"denied while it failed", requested(deny, ready("Failed")), requests.Deny},
		{"denied, and that is said", requested(deny, saidDenied), requests.None},
		{"invalid", requested(approved, invalid), requests.None},
		{"failed", requested(approved, ready("Failed")), requests.None},
		{"said to be denied", requested(approved, ready("Denied")), requests.None},
		{"issued", requested(approved, ready("Issued")), requests.None},
		{"ready, for a reason that nobody knows", requested(approved, with(cmv1.CertificateRequestConditionReady, cmmeta.ConditionTrue, "Odd")), requests.None},
		{"with a certificate", requested(approved, func(cr *cmv1.CertificateRequest) { cr.Status.Certificate = []byte("c") }), requests.None},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if got := dueOf(tc.cr); got != tc.want {
				t.Errorf("step %d, want %d", got, tc.want)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	chain := &pki.Chain{Certificates: []*x509.Certificate{{Raw: []byte("certificate")}}}
	cause := errors.New("cause")
	tests := []struct {
		reason       string
		err          error
		age          time.Duration
		ready, event string
		again        time.Duration
		retry        bool
	}{
		{reason: "a certificate", ready: "Issued", event: "CertificateIssued"},
		{reason: "permanent", err: Permanent(cause), ready: "Failed", event: "SigningError"},
		{reason: "wrapped", err: errors.Join(errors.New("more"), Permanent(cause)), ready: "Failed", event: "SigningError"},
		{reason: "invalid", err: Invalid(cause), ready: "Failed", event: "InvalidRequest"},
		{reason: "pending, and when to ask", err: Pending(cause, time.Second), age: 99 * time.Hour, ready: "Pending", event: "SigningPending", again: time.Second},
		{reason: "pending", err: Pending(cause, 0), age: 99 * time.Hour, ready: "Pending", event: "SigningPending", retry: true},
		{reason: "anything", err: cause, age: time.Hour - 1, ready: "Pending", event: "SigningRetried", retry: true},
		{reason: "anything, for too long", err: cause, age: time.Hour, ready: "Failed", event: "SigningError"},
		{reason: "a bad answer", err: answerError{cause}, ready: "Failed", event: "InvalidAnswer"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			o := decide(chain, tc.err, tc.age, time.Hour)
			if o.State.String() != tc.ready || o.Reason != tc.event || o.After != tc.again || (o.Retry != nil) != tc.retry {
				t.Errorf("%+v", o)
			}
			if tc.err != nil && !strings.Contains(o.Message, "cause") {
				t.Errorf("message %q", o.Message)
			}
		})
	}
}

// Consecutive failures count from the first, as long as it is the same request
// and it has no other outcome in between.
func TestFailing(t *testing.T) {
	f := newFailing()
	cr := func(uid types.UID) *cmv1.CertificateRequest {
		return &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid}}
	}
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	retried, ordered := outcome.Outcome{Reason: reasonRetried}, outcome.Outcome{Reason: reasonPending}
	steps := []struct {
		reason string
		uid    types.UID
		minute int
		o      outcome.Outcome
		since  int
	}{
		{"the first", "a", 0, retried, 0},
		{"the second", "a", 7, retried, 0},
		{"an order", "a", 8, ordered, 0},
		{"the first after it", "a", 60, retried, 60},
		{"another request by the name", "b", 61, retried, 61},
		{"its second", "b", 62, retried, 61},
	}
	for _, step := range steps {
		if got := f.since(cr(step.uid), at(step.minute)); !got.Equal(at(step.since)) {
			t.Errorf("%s: since %v, want %v", step.reason, got, at(step.since))
		}
		f.note(cr(step.uid), step.o, at(step.minute))
	}
	f.end(types.NamespacedName{Namespace: "default", Name: "web"})
	if len(f.by) > 0 {
		t.Errorf("what is over stays in memory: %v", f.by)
	}
}

// A request waits for its issuer until the issuer's current spec has been
// checked.
func TestFindIssuer(t *testing.T) {
	k := &kind{}
	k.Kind = "Sample"
	ready := func(status metav1.ConditionStatus, observed int64) *sample {
		s := &sample{conditions: []metav1.Condition{{Type: ConditionReady, Status: status, ObservedGeneration: observed, Reason: "R", Message: "m"}}}
		s.Generation = 2
		return s
	}
	tests := []struct {
		reason string
		issuer Issuer
		want   string
	}{
		{"none", nil, `Referenced "Sample" not found: there is no Sample named ca`},
		{"new", &sample{}, "it has not been checked yet"},
		{"changed", ready(metav1.ConditionTrue, 1), "its current spec has not been checked yet"},
		{"not ready", ready(metav1.ConditionFalse, 2), "R: m"},
		{"ready", ready(metav1.ConditionTrue, 2), ""},
	}
	for _, tc := range tests {
		o, ok := findIssuer(tc.issuer, who{kind: k, NamespacedName: types.NamespacedName{Name: "ca"}})
		if ok != (tc.want == "") || !strings.HasSuffix(o.Message, tc.want) {
			t.Errorf("%s: %q", tc.reason, o.Message)
		}
	}
}

// Pauses grow while an issuer signs nothing. A new spec begins again, and so does
// another issuer by the same name.
func TestFaults(t *testing.T) {
	f, issuer, cause := newFaults(), who{NamespacedName: types.NamespacedName{Name: "ca"}}, errors.New("cause")
	object := func(uid types.UID, generation int64) *sample {
		return &sample{ObjectMeta: metav1.ObjectMeta{Name: "ca", UID: uid, Generation: generation}}
	}
	first, changed, another := object("a", 1), object("a", 2), object("b", 1)
	at := now
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		if got := f.put(issuer, first, cause, at); got.until.Sub(at) != want*time.Second {
			t.Fatalf("a pause of %v, want %v s", got.until.Sub(at), int(want))
		}
		if again := f.put(issuer, first, cause, at.Add(time.Second)); again.until.Sub(at) != want*time.Second {
			t.Fatalf("another request made the pause %v", again.until.Sub(at))
		}
		if _, ok := f.of(issuer, first, at.Add(want*time.Second-1)); !ok {
			t.Fatal("it is tried in the pause")
		}
		at = at.Add(want * time.Second)
		if _, ok := f.of(issuer, first, at); ok {
			t.Fatal("it is not tried after the pause")
		}
	}
	f.put(issuer, first, cause, at)
	if _, ok := f.of(issuer, another, at); ok {
		t.Error("an issuer is held to blame for the one that had its name before")
	}
	if _, ok := f.of(issuer, changed, at); ok {
		t.Error("the new spec is held to blame for the old")
	}
	if got := f.put(issuer, changed, cause, at); got.until.Sub(at) != firstPause {
		t.Errorf("the new spec has a pause of %v", got.until.Sub(at))
	}
	f.forget(issuer)
	if _, ok := f.of(issuer, changed, at); ok {
		t.Error("it has signed and is to blame")
	}
}

// sample is an issuer without a server.
type sample struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	conditions []metav1.Condition
}

func (s *sample) GetConditions() []metav1.Condition { return s.conditions }
func (s *sample) DeepCopyObject() runtime.Object    { c := *s; return &c }
