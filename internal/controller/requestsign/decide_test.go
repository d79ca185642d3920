package requestsign

import (
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
)

// A signer's answer becomes a condition, an Event, and another attempt if no
// watch reports when to try again.
func TestDecide(t *testing.T) {
	broken := errors.New("the key of the CA is at /secret/place")
	tests := []struct {
		reason string
		err    error
		want   string
		event  string
		final  bool
		retry  bool
		after  time.Duration
	}{
		{reason: "a certificate", want: "Issued", event: "CertificateIssued", final: true},
		{reason: "never", err: signer.Permanent("SigningError", broken), want: "Failed", event: "SigningError", final: true},
		{reason: "a Secret that may come", err: &signer.PendingError{Reason: "SecretMissing", Message: "m", Err: broken, Watched: true}, want: "Pending", event: "SecretMissing"},
		{reason: "an API that does not answer", err: &signer.PendingError{Reason: "SecretGetError", Message: "m", Err: broken}, want: "Pending", event: "SecretGetError", retry: true},
		{reason: "an end that is near", err: signer.Expired(broken), want: "Pending", event: "SignerExpired", retry: true},
		{reason: "a server that asks for a pause", err: &signer.PendingError{Reason: "VaultUnavailable", Err: broken, RetryAfter: time.Minute}, want: "Pending", event: "VaultUnavailable", retry: true, after: time.Minute},
		{reason: "a server that asks for a very short pause", err: &signer.PendingError{Reason: "VaultUnavailable", Err: broken, RetryAfter: time.Millisecond}, want: "Pending", event: "VaultUnavailable", retry: true, after: 5 * time.Second},
		{reason: "no verdict", err: broken, want: "Pending", event: "SignerUnavailable", retry: true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			o := decide(&signer.Issued{Certificate: &x509.Certificate{SerialNumber: big.NewInt(1)}}, tc.err)
			if o.State.String() != tc.want || o.Reason != tc.event || o.Final() != tc.final || (o.Retry != nil) != tc.retry || o.After != tc.after {
				t.Errorf("%+v", o)
			}
			if tc.reason == "no verdict" && o.Message != "The issuer cannot sign at present; it keeps trying" {
				t.Errorf("it tells the requester of %q", o.Message)
			}
		})
	}
}

// A request waits for what it has last needed, and for nothing once it is
// answered.
func TestWaiting(t *testing.T) {
	name := func(s string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: s} }
	secret := func(s string) issuing.Reference { return issuing.Secret(name(s)) }
	order := issuing.Reference{Kind: schema.GroupKind{Group: "acme.cert-manager.io", Kind: "Order"}, NamespacedName: name("one")}
	w := newWaiting()
	w.put(name("a"), []issuing.Reference{secret("one")})
	w.put(name("b"), []issuing.Reference{secret("one"), order})
	w.put(name("a"), []issuing.Reference{secret("two")})
	if got := w.of(secret("one")); len(got) != 1 || got[0] != name("b") {
		t.Errorf("for one wait %v", got)
	}
	if got := w.of(order); len(got) != 1 || got[0] != name("b") {
		t.Errorf("for the order of the same name wait %v", got)
	}
	if got := w.all(); len(got) != 2 {
		t.Errorf("there wait %v", got)
	}
	for i, tc := range []struct {
		uid, class string
		tells      bool
	}{{"1", "created", true}, {"1", "created", false}, {"1", "limited", true}, {"1", "limited", false}, {"1", "created", true}, {"2", "created", true}} {
		if tells := len(w.said.News(name("a"), cause{types.UID(tc.uid), tc.class})) > 0; tells != tc.tells {
			t.Errorf("Event %d: %v", i, tells)
		}
	}
	w.forget(name("a"))
	w.forget(name("b"))
	told := w.said.About(func(types.NamespacedName, cause) bool { return true })
	if len(w.objects)+len(w.requests)+len(told) != 0 {
		t.Errorf("left are %v, %v, %v", w.objects, w.requests, told)
	}
}
