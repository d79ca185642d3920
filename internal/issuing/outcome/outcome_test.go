package outcome

import (
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/process/eventtext"
)

type (
	csr       = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDecideCSR(t *testing.T) {
	issued := &signer.Issued{Certificate: &x509.Certificate{SerialNumber: big.NewInt(1)}, PEM: []byte("chain")}
	unavailable := signer.Unavailable(errors.New("disk on fire"))
	tests := []struct {
		reason string
		issued *signer.Issued
		err    error
		want   certificatesv1.CertificateSigningRequestStatus
		retry  bool
	}{
		{
			reason: "a certificate ends the delay",
			issued: issued,
			want:   certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("chain"), Conditions: []condition{{Type: "Approved"}}},
		},
		{
			reason: "a permanent verdict fails the request and ends the delay",
			err:    signer.Permanent("Bad", errors.New("no good")),
			want: certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{
				{Type: "Approved"},
				{Type: "Failed", Status: "True", Reason: "Bad", Message: "no good", LastUpdateTime: metav1.NewTime(now)},
			}},
		},
		{
			reason: "a pending verdict delays it",
			err:    unavailable,
			want: certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{
				{Type: "Approved"},
				{
					Type: "SigningDelayed", Status: "True", Reason: "SignerUnavailable",
					Message: "the signer cannot sign at present; it keeps trying", LastUpdateTime: metav1.NewTime(now),
				},
			}},
			retry: true,
		},
		{
			reason: "what is no verdict says nothing about the request",
			err:    errors.New("disk on fire"),
			want: certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{
				{Type: "Approved"},
				{
					Type: "SigningDelayed", Status: "True", Reason: "SignerUnavailable",
					Message: "the signer cannot sign at present; it keeps trying", LastUpdateTime: metav1.NewTime(now),
				},
			}},
			retry: true,
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			before := &csr{Status: certificatesv1.CertificateSigningRequestStatus{
				Conditions: []condition{{Type: "Approved"}, {Type: certificates.ConditionDelayed, Reason: "Old"}},
			}}
			unchanged := before.DeepCopy()
			o := Decide(tc.issued, tc.err, "Issued")
			after := csrWith(before, o, metav1.NewTime(now))
			if diff := cmp.Diff(tc.want, after.Status); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (o.Retry != nil) != tc.retry {
				t.Errorf("retry is %v, want %v", o.Retry, tc.retry)
			}
			if diff := cmp.Diff(unchanged, before); diff != "" {
				t.Errorf("the cached object was changed:\n%s", diff)
			}
			if csrShows(before, o) || !csrShows(after, o) {
				t.Errorf("seen before: %v, seen after: %v", csrShows(before, o), csrShows(after, o))
			}
		})
	}
}

func TestMessagesArePresentable(t *testing.T) {
	long := strings.Repeat("ö", eventtext.Max)
	o := Decide(nil, signer.Permanent("Bad", errors.New("\xff"+long)), "Issued")
	got := o.Message
	if len(got) > eventtext.Max || !utf8.ValidString(got) || !strings.HasSuffix(got, "ö...") {
		t.Errorf("message of %d bytes: %q", len(got), got)
	}
}

// The first failure counts, and what others have written is not said again.
func TestStatusOf(t *testing.T) {
	cr := &cmv1.CertificateRequest{}
	certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionApproved, cmmeta.ConditionTrue, "Test", "", metav1.NewTime(now))
	first := metav1.NewTime(now.Add(-time.Hour))
	cr.Status.FailureTime = &first
	fields, err := signersPart(requestWith(cr, Fail("SigningError", "m"), metav1.NewTime(now)))
	if err != nil {
		t.Fatal(err)
	}
	conditions := fields["conditions"].([]any)
	if len(conditions) != 1 || conditions[0].(map[string]any)["type"] != "Ready" {
		t.Errorf("conditions %v", conditions)
	}
	if fields["failureTime"] != "2026-03-01T11:00:00Z" {
		t.Errorf("failed at %v", fields["failureTime"])
	}
}

// What a request shows of an outcome is recognised, and of no other.
func TestShownOn(t *testing.T) {
	failed, denied := Fail("SigningError", "m"), Outcome{State: Denied, Message: "d"}
	cr := &cmv1.CertificateRequest{}
	certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, "Failed", "m", metav1.NewTime(now))
	if ShownOn(cr, failed) {
		t.Error("a request without the time of its failure shows it")
	}
	cr.Status.FailureTime = &metav1.Time{Time: now}
	if !ShownOn(cr, failed) || ShownOn(cr, denied) || ShownOn(cr, Wait("x", "m")) {
		t.Error("an outcome is not recognised")
	}
}
