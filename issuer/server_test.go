package issuer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/issuer"
)

// From an issuer and a request to a certificate, with the built-in approver.
// The controller starts before the kinds of its issuers exist.
func TestIssued(t *testing.T) {
	w := startWithout(t)
	c := newCA(t)
	w.run(t, issuer.Controller{Sign: c.sign})
	w.install(t)
	key := apitest.NewKey(t)
	cr := request(t, "web", "ca", key)
	cr.Spec.Duration = &metav1.Duration{Duration: 2 * time.Hour}
	cr.Spec.Usages = []cmv1.KeyUsage{cmv1.UsageDigitalSignature, cmv1.UsageClientAuth}
	w.create(t, remote("ca"), cr)

	done := w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
	leaf := verified(t, done.Status.Certificate, c.root, key)
	if !bytes.Equal(done.Status.CA, pki.EncodeCertificates(c.root)) {
		t.Errorf("status.ca is %s", done.Status.CA)
	}
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life != 2*time.Hour {
		t.Errorf("it lives for %v", life)
	}
	if len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != "web.example.com" || len(leaf.ExtKeyUsage) != 1 {
		t.Errorf("names %v, usages %v", leaf.DNSNames, leaf.ExtKeyUsage)
	}
	w.isReady(t, "ca", metav1.ConditionTrue, issuer.ReasonChecked)
	w.told(t, "ca", "Normal", "Checked")
	w.told(t, "web", "Normal", "CertificateIssued")
	if n := c.asked("web"); n != 1 {
		t.Errorf("the CA was asked %d times", n)
	}
}

// What Sign gets to see.
func TestRequest(t *testing.T) {
	w := share(t, &common)
	c := newCA(t)
	seen := make(chan *issuer.Request, 1)
	w.run(t, issuer.Controller{MaxDuration: time.Hour, Sign: func(ctx context.Context, r *issuer.Request) ([]byte, error) {
		seen <- r
		return c.sign(ctx, r)
	}})
	issuerForAll := &RemoteForAll{ObjectMeta: metav1.ObjectMeta{Name: "all-of-" + w.namespace}}
	w.create(t, issuerForAll)
	defer w.admin.Delete(t.Context(), issuerForAll)
	cr := request(t, "sub", issuerForAll.Name, apitest.NewKey(t))
	cr.Spec.IssuerRef.Kind, cr.Spec.IsCA = "RemoteForAll", true
	w.create(t, cr)
	got := <-seen
	if all, ok := got.Issuer.(*RemoteForAll); !ok || all.Name != issuerForAll.Name {
		t.Errorf("issuer %v", got.Issuer)
	}
	if got.Requester.Username != cr.Spec.Username || cr.Spec.Username == "" || got.Object.GetUID() != cr.UID {
		t.Errorf("of %+v, object %s", got.Requester, got.Object.GetUID())
	}
	if usages := strings.Join(got.Usages(), ", "); got.Duration != time.Hour || !got.IsCA || usages != "digital signature, key encipherment, cert sign" {
		t.Errorf("duration %v, CA %v, usages %s", got.Duration, got.IsCA, usages)
	}
	if got.CSR.Subject.CommonName != "sub" || !bytes.Equal(got.PEM, cr.Spec.Request) {
		t.Errorf("request of %v", got.CSR.Subject)
	}
	w.becomes(t, "sub", cmv1.CertificateRequestReasonIssued)
}

// An unapproved request is not signed, and the conditions of an approver stay
// unchanged to the letter: clients in other languages write microseconds.
func TestDecisions(t *testing.T) {
	w := share(t, &byHand)
	c := newCA(t)
	w.run(t, issuer.Controller{Sign: c.sign})
	w.create(t, remote("ca"))
	for _, name := range []string{"approved", "denied", "invalid", "undecided", "elsewhere"} {
		cr := request(t, name, "ca", apitest.NewKey(t))
		if name == "elsewhere" {
			cr.Spec.IssuerRef.Group = "other.example.com"
		}
		w.create(t, cr)
	}
	w.decide(t, "denied", cmv1.CertificateRequestConditionDenied)
	said := w.becomes(t, "denied", cmv1.CertificateRequestReasonDenied)
	if messageOf(said) != "The CertificateRequest was denied by an approval controller" || said.Status.FailureTime == nil {
		t.Errorf("%+v", said.Status)
	}
	w.decide(t, "invalid", cmv1.CertificateRequestConditionInvalidRequest)
	w.decide(t, "invalid", cmv1.CertificateRequestConditionApproved)
	const since = "2026-03-01T12:00:00.123456Z"
	patch := `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Elsewhere","message":"m","lastTransitionTime":"` + since + `"}]}}`
	if err := w.admin.Status().Patch(t.Context(), w.request(t, "approved"), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	w.becomes(t, "approved", cmv1.CertificateRequestReasonIssued)
	raw, err := apitest.Client(t, w.Admin(t)).Discovery().RESTClient().Get().
		RequestURI("/apis/cert-manager.io/v1/namespaces/" + w.namespace + "/certificaterequests/approved").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(raw), since) {
		t.Errorf("the approval has changed: %s, %v", raw, err)
	}
	if note := w.told(t, "undecided", "Normal", "WaitingForApproval"); !strings.Contains(note, "remotes.test.example.com/*") {
		t.Errorf("it does not say which right is missing: %s", note)
	}
	for _, name := range []string{"denied", "invalid", "undecided", "elsewhere"} {
		if cr := w.request(t, name); len(cr.Status.Certificate) > 0 || c.asked(name) > 0 {
			t.Errorf("%s was signed", name)
		}
	}
	if cr := w.request(t, "undecided"); len(cr.Status.Conditions) > 0 {
		t.Errorf("the status of what nobody has decided: %+v", cr.Status)
	}
}

// A request that is denied while the CA works on it gets no certificate.
func TestDeniedMeanwhile(t *testing.T) {
	w := share(t, &byHand)
	c := newCA(t)
	working, go_on := make(chan bool), make(chan bool)
	w.run(t, issuer.Controller{Sign: func(ctx context.Context, r *issuer.Request) ([]byte, error) {
		if r.Object.GetName() == "gone" {
			close(working)
			<-go_on
		}
		return c.sign(ctx, r)
	}})
	w.create(t, remote("ca"), request(t, "gone", "ca", apitest.NewKey(t)), request(t, "next", "ca", apitest.NewKey(t)))
	w.decide(t, "gone", cmv1.CertificateRequestConditionApproved)
	<-working
	// Only a client that may write the status freely can do that.
	cr := w.request(t, "gone")
	metav1.SetMetaDataAnnotation(&cr.ObjectMeta, "example.com/changed", "meanwhile")
	if err := w.admin.Update(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	api.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, cmv1.CertificateRequestReasonFailed, "by hand", metav1.Now())
	if err := w.admin.Status().Update(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	close(go_on)
	w.decide(t, "next", cmv1.CertificateRequestConditionApproved)
	w.becomes(t, "next", cmv1.CertificateRequestReasonIssued)
	if cr := w.request(t, "gone"); len(cr.Status.Certificate) > 0 || messageOf(cr) != "by hand" {
		t.Errorf("%+v", cr.Status)
	}
}

// What becomes of a request after each kind of error.
func TestErrors(t *testing.T) {
	w := share(t, &common)
	c := newCA(t)
	w.run(t, issuer.Controller{RetryFor: time.Hour, Sign: func(ctx context.Context, r *issuer.Request) ([]byte, error) {
		n := c.count(r)
		switch r.Object.GetName() {
		case "never":
			return nil, issuer.Permanent(errors.New("no such zone"))
		case "nowhere":
			return nil, issuer.Invalid(errors.New("names are refused"))
		case "later":
			if n == 1 {
				return nil, issuer.Pending(errors.New("ordered"), 100*time.Millisecond)
			}
		case "flaky":
			return nil, fmt.Errorf("attempt %d", n)
		case "panics":
			panic("the password is hunter2")
		case "hollow":
			return nil, issuer.Permanent(nil)
		case "wrong":
			other := *r
			other.CSR = csrOf(t, "wrong", apitest.NewKey(t))
			return c.sign(ctx, &other)
		case "empty":
			return nil, nil
		}
		return c.sign(ctx, r)
	}})
	tests := []struct{ name, ready, event, eventType, message string }{
		{"never", "Failed", "SigningError", "Warning", "no such zone"},
		{"nowhere", "Failed", "InvalidRequest", "Warning", "names are refused"},
		{"later", "Issued", "SigningPending", "Normal", "Certificate fetched from issuer successfully"},
		{"flaky", "Pending", "SigningRetried", "Warning", "The issuer could not sign; trying again: attempt "},
		{"panics", "Pending", "SigningRetried", "Warning", "The issuer could not sign; trying again: the issuer's controller has a fault, which its log describes"},
		{"hollow", "Pending", "SigningRetried", "Warning", "The issuer could not sign; trying again: the issuer's controller has a fault, which its log describes"},
		{"wrong", "Failed", "InvalidAnswer", "Warning", "the issuer's answer cannot be used: the certificate is for another key than the request's"},
		{"empty", "Failed", "InvalidAnswer", "Warning", "the issuer's answer cannot be used: reading the certificates: must contain at least one CERTIFICATE PEM block"},
	}
	// What the issuer's readiness wakes is over before the attempts are counted.
	w.create(t, request(t, "first", "ca", apitest.NewKey(t)))
	w.becomes(t, "first", cmv1.CertificateRequestReasonPending)
	w.create(t, remote("ca"))
	w.becomes(t, "first", cmv1.CertificateRequestReasonIssued)
	begun := time.Now()
	for _, tc := range tests {
		w.create(t, request(t, tc.name, "ca", apitest.NewKey(t)))
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cr := w.becomes(t, tc.name, tc.ready)
			if got := messageOf(cr); strings.TrimRight(got, "0123456789") != tc.message {
				t.Errorf("message %q, want %q", got, tc.message)
			}
			if failed := cr.Status.FailureTime != nil; failed != (tc.ready == "Failed") {
				t.Errorf("failed at %v", cr.Status.FailureTime)
			}
			if invalid := api.RequestIs(cr, cmv1.CertificateRequestConditionInvalidRequest); invalid != (tc.name == "nowhere") {
				t.Errorf("invalid: %v", invalid)
			}
			w.told(t, tc.name, tc.eventType, tc.event)
		})
	}
	// What the controller writes itself does not make it try again at once.
	c.wantPauses(t, "flaky", begun)
}

// After a while, errors are final. The time in which an order was worked on is
// not part of it: one hiccup at its end does not cost the certificate.
func TestGivesUp(t *testing.T) {
	w := share(t, &common)
	c := newCA(t)
	w.run(t, issuer.Controller{RetryFor: time.Nanosecond, Sign: func(_ context.Context, r *issuer.Request) ([]byte, error) {
		if c.count(r) == 1 {
			return nil, issuer.Pending(errors.New("ordered"), time.Millisecond)
		}
		return nil, errors.New("no route to host")
	}})
	w.create(t, remote("ca"), request(t, "web", "ca", apitest.NewKey(t)))
	w.told(t, "web", "Normal", "SigningPending")
	w.told(t, "web", "Warning", "SigningRetried")
	cr := w.becomes(t, "web", cmv1.CertificateRequestReasonFailed)
	if got := messageOf(cr); got != "Gave up after 1ns: no route to host" || cr.Status.FailureTime == nil {
		t.Errorf("%q at %v", got, cr.Status.FailureTime)
	}
}

// Requests wait for an issuer, and continue without help once it exists and can
// sign. The result of Check is about the spec that it has seen.
func TestReadiness(t *testing.T) {
	w := share(t, &common)
	c := newCA(t)
	w.run(t, issuer.Controller{Sign: c.sign, Check: func(_ context.Context, i issuer.Issuer) error {
		switch i.(*Remote).Spec.URL {
		case "https://wrong":
			return issuer.Permanent(errors.New("no such host"))
		case "https://slow":
			return errors.New("connection refused")
		case "https://panics":
			panic("the password is hunter2")
		case "https://hollow":
			return issuer.Permanent(nil)
		}
		return nil
	}})
	w.create(t, request(t, "web", "ca", apitest.NewKey(t)))
	w.becomes(t, "web", cmv1.CertificateRequestReasonPending)
	w.told(t, "web", "Normal", "IssuerNotFound")

	ca := remote("ca")
	ca.Spec.URL = "https://wrong"
	w.create(t, ca)
	w.isReady(t, "ca", metav1.ConditionFalse, issuer.ReasonFailed)
	w.told(t, "ca", "Warning", "Failed")
	apitest.Eventually(t, "the request says why it waits", func() bool {
		return strings.Contains(messageOf(w.request(t, "web")), "no such host")
	})
	for _, step := range []struct{ url, reason, message string }{
		{"https://slow", issuer.ReasonPending, "connection refused"},
		{"https://panics", issuer.ReasonPending, "the issuer's controller has a fault, which its log describes"},
		{"https://slow", issuer.ReasonPending, "connection refused"},
		{"https://hollow", issuer.ReasonPending, "the issuer's controller has a fault, which its log describes"},
	} {
		w.point(t, "ca", step.url)
		apitest.Eventually(t, step.message, func() bool {
			return w.isReady(t, "ca", metav1.ConditionFalse, step.reason).Message == step.message
		})
	}
	if n := c.asked("web"); n > 0 {
		t.Errorf("signed %d times by an issuer that is not ready", n)
	}
	w.point(t, "ca", "https://right")
	w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
	w.isReady(t, "ca", metav1.ConditionTrue, issuer.ReasonChecked)
}

// point changes the spec of an issuer.
func (w world) point(t *testing.T, name, url string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"url":"`+url+`"}}`))
	if err := w.admin.Patch(t.Context(), remote(name), patch); err != nil {
		t.Fatal(err)
	}
}

// What Sign finds wrong with an issuer counts more than what Check can see; all
// its requests wait, and no others.
func TestNotReady(t *testing.T) {
	w := share(t, &common)
	c := newCA(t)
	var down atomic.Bool
	down.Store(true)
	w.run(t, issuer.Controller{Sign: func(ctx context.Context, r *issuer.Request) ([]byte, error) {
		if r.Issuer.GetName() == "down" && down.Load() {
			c.count(r)
			return nil, issuer.NotReady(errors.New("the token has expired"))
		}
		return c.sign(ctx, r)
	}})
	begun := time.Now()
	w.create(t, remote("down"), remote("up"), request(t, "one", "down", apitest.NewKey(t)))
	if got := w.isReady(t, "down", metav1.ConditionFalse, issuer.ReasonPending).Message; got != "the token has expired" {
		t.Errorf("message %q", got)
	}
	w.create(t, request(t, "two", "down", apitest.NewKey(t)), request(t, "three", "up", apitest.NewKey(t)))
	w.becomes(t, "three", cmv1.CertificateRequestReasonIssued)
	w.becomes(t, "two", cmv1.CertificateRequestReasonPending)
	w.told(t, "two", "Normal", "IssuerNotReady")
	// Both are asked for again at each end of its pauses.
	n := c.asked("one") + c.asked("two")
	if most := 1 + 2*int(time.Since(begun)/(5*time.Second)); n > most {
		t.Errorf("the CA was asked %d times in %v, want %d at most", n, time.Since(begun), most)
	}
	down.Store(false)
	w.becomes(t, "one", cmv1.CertificateRequestReasonIssued)
	w.becomes(t, "two", cmv1.CertificateRequestReasonIssued)
	w.isReady(t, "down", metav1.ConditionTrue, issuer.ReasonChecked)
}
