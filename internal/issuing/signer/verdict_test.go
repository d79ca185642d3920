package signer_test

import (
	"bytes"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

func TestVerdicts(t *testing.T) {
	good := newRequest(t)
	tampered, _ := pem.Decode(good)
	tampered.Bytes[len(tampered.Bytes)-1] ^= 1
	failing := func() (*pki.Authority, error) { return nil, errors.New("cannot read /etc/ca.key") }

	tests := []struct {
		reason  string
		request []byte
		usages  []certificatesv1.KeyUsage
		ca      func() (*pki.Authority, error)
		now     time.Time
		rand    io.Reader
		want    string // reason of the verdict
		message string // for the requester
		pending bool
	}{
		{
			reason: "usage of a server",
			usages: []certificatesv1.KeyUsage{"client auth", "server auth"},
			want:   "SignerValidationFailure", message: "invalid usage for client certificate: server auth",
		},
		{
			reason: "signing is not digital signature here",
			usages: []certificatesv1.KeyUsage{"signing", "client auth"},
			want:   "SignerValidationFailure", message: "invalid usage for client certificate: signing",
		},
		{
			reason: "not for clients",
			usages: []certificatesv1.KeyUsage{"digital signature", "key encipherment"},
			want:   "SignerValidationFailure", message: "missing required usage for client certificate: client auth",
		},
		{
			reason: "a wrong usage is told before a missing one",
			usages: []certificatesv1.KeyUsage{"any"},
			want:   "SignerValidationFailure", message: "invalid usage for client certificate: any",
		},
		{
			reason:  "two common names: approver and verifier could read different ones",
			request: requestOf(t, ecKey(t), attribute(oidCommonName, "admin"), attribute(oidCommonName, "alice")),
			want:    "SignerValidationFailure", message: "subject has more than one common name",
		},
		{
			reason:  "an identity that no tool shows to the approver",
			request: requestOf(t, ecKey(t), attribute(oidCommonName, "alice"), attribute(oidUserUID, "uid-of-admin")),
			want:    "SignerValidationFailure", message: "subject attribute 1.3.6.1.4.1.57683.2 (Kubernetes user UID) is not allowed",
		},
		{
			reason:  "no request",
			request: []byte("junk"),
			want:    "InvalidRequest", message: "parsing the certificate request: PEM block type must be CERTIFICATE REQUEST",
		},
		{
			reason:  "no proof of possession",
			request: pem.EncodeToMemory(tampered),
			want:    "InvalidRequest", message: "verifying the certificate request's signature: x509: ECDSA verification failure",
		},
		{
			reason:  "nobody named",
			request: requestOf(t, ecKey(t)),
			want:    "CertificateRefused",
			message: "refusing to sign: certificate would have no name: subject and subjectAltName are empty (RFC 5280 section 4.1.2.6)",
		},
		{
			reason: "CA over for an hour",
			now:    now.Add(pki.DefaultRootLifetime + time.Hour),
			want:   "SignerExpired", message: "the signer has expired: NotAfter=2036-02-27 12:00:00 +0000 UTC", pending: true,
		},
		{
			reason: "CA over for a second",
			now:    now.Add(pki.DefaultRootLifetime + time.Second),
			want:   "SignerExpired", pending: true,
			message: "refusing to sign a certificate that expired in the past: NotAfter=2036-02-27 12:00:00 +0000 UTC",
		},
		{
			reason: "CA not begun",
			now:    now.Add(-time.Hour),
			want:   "SignerExpired", message: "the signer is not yet valid: NotBefore=2026-03-01 11:55:00 +0000 UTC", pending: true,
		},
		{
			reason: "no CA: its whereabouts are not the requester's business",
			ca:     failing,
			want:   "SignerUnavailable", message: "the signer cannot sign at present; it keeps trying", pending: true,
		},
		{
			reason: "no randomness",
			rand:   bytes.NewReader(nil),
			want:   "SignerUnavailable", message: "the signer cannot sign at present; it keeps trying", pending: true,
		},
		{
			reason:  "a bad request is told so while there is no CA",
			ca:      failing,
			request: []byte("junk"),
			want:    "InvalidRequest", message: "parsing the certificate request: PEM block type must be CERTIFICATE REQUEST",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			tc.request, tc.usages = orElse(tc.request, good), orElse(tc.usages, clientUsages)
			if tc.ca == nil {
				root := newRoot(t)
				tc.ca = func() (*pki.Authority, error) { return root, nil }
			}
			if tc.now.IsZero() {
				tc.now = now
			}
			if tc.rand == nil {
				tc.rand = rand.Reader
			}
			issued, err := signer.Local(lookup(t, apiServerClient), tc.ca, pki.Issuing{Rand: tc.rand, Record: pki.Unrecorded.Record})(t.Context(), asking(tc.request, tc.usages, nil), signer.Permission{}, tc.now)
			if issued != nil {
				t.Fatalf("issued %s", issued.Certificate.Subject)
			}
			assertVerdict(t, err, tc.want, tc.message, tc.pending)
		})
	}
}

func assertVerdict(t *testing.T, err error, reason, message string, pending bool) {
	t.Helper()
	var gotPermanent *signer.PermanentError
	var gotPending *signer.PendingError
	switch {
	case errors.As(err, &gotPermanent) && !pending:
		if gotPermanent.Reason != reason || err.Error() != message {
			t.Errorf("verdict %s %q, want %s %q", gotPermanent.Reason, err, reason, message)
		}
	case errors.As(err, &gotPending) && pending:
		if gotPending.Reason != reason || gotPending.Message != message {
			t.Errorf("verdict %s %q, want %s %q", gotPending.Reason, gotPending.Message, reason, message)
		}
	default:
		t.Errorf("error is %T %v, want pending=%v", err, err, pending)
	}
}

func TestUnsupportedKeys(t *testing.T) {
	demanding := lookup(t, apiServerClient)
	demanding.Policy.MinRSABits = 3072
	key, err := pki.GenerateKey(pki.RSA2048)
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(t)
	ca := func() (*pki.Authority, error) { return root, nil }
	req := asking(requestOf(t, key, attribute(oidCommonName, "alice")), clientUsages, nil)
	if _, err := signer.Local(lookup(t, apiServerClient), ca, pki.Unrecorded)(t.Context(), req, signer.Permission{}, now); err != nil {
		t.Errorf("RSA-2048: %v", err)
	}
	_, err = signer.Local(demanding, ca, pki.Unrecorded)(t.Context(), req, signer.Permission{}, now)
	assertVerdict(t, err, "UnsupportedKey", "RSA key of 2048 bits is smaller than the required 3072 bits", false)
}
