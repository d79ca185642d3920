package certplane_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/admission/certplane"
	"github.com/certplane/certplane/internal/pki"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// certificate returns a certificate in PEM that ends at a time.
func certificate(t *testing.T, notAfter time.Time) string {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "alice"}, NotBefore: noon.Add(-24 * time.Hour), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestRevocations(t *testing.T) {
	good, over := certificate(t, noon.Add(time.Hour)), certificate(t, noon.Add(-time.Second))
	of := func(texts ...string) v1alpha1.RevocationSpec {
		spec := v1alpha1.RevocationSpec{Reason: "KeyCompromise"}
		for _, text := range texts {
			spec.Certificates = append(spec.Certificates, v1alpha1.RevokedCertificate{PEM: text})
		}
		return spec
	}
	byFingerprint, bySerial, selecting, ofCA := of(), of(), of(), of(good)
	byFingerprint.Certificates = []v1alpha1.RevokedCertificate{{Fingerprint: strings.Repeat("ab", 32)}}
	bySerial.Certificates = []v1alpha1.RevokedCertificate{{SerialNumber: "1", AuthorityKeyID: "ab"}}
	selecting.Selection, ofCA.Reason = &v1alpha1.RevocationSelection{Signers: []string{"example.com/web"}}, "CACompromise"
	other := of(good)
	other.Reason = "Superseded"
	const final = "a revocation cannot be undone; this object is deleted when its certificates have ended"
	tests := []struct {
		reason     string
		user       string
		now, old   *v1alpha1.RevocationSpec
		want, warn string
	}{
		{reason: "a certificate", now: new(of(good))},
		{reason: "two certificates", now: new(of(good, good))},
		{reason: "by fingerprint", now: &byFingerprint, warn: "spec.certificates[0].fingerprint: "},
		{reason: "by serial number", now: &bySerial, warn: "spec.certificates[0].serialNumber: only revocation lists have it"},
		{reason: "a selection", now: &selecting, want: "spec.selection: Forbidden: needs the inventory of certplane serve: give certificates as pem"},
		{reason: "no certificate", now: new(of("x")), want: "spec.certificates[0].pem: Invalid value: must be one certificate in PEM"},
		{reason: "two in one", now: new(of(good, good+good)), want: "spec.certificates[1].pem: Invalid value: must be one certificate in PEM"},
		{reason: "text behind it", now: new(of(good + "x")), want: "must be one certificate in PEM"},
		{reason: "text before it", now: new(of("x\n" + good)), want: "must be one certificate in PEM"},
		{reason: "ended", now: new(of(over)), want: "spec.certificates[0]: Forbidden: ended on 2026-11-29T11:59:59Z"},
		{reason: "no CA", now: &ofCA, want: "spec.reason: Forbidden: CACompromise is for CA certificates: use KeyCompromise"},
		{reason: "without the right", user: "bob", now: new(of(good)), want: `user "bob" may not revoke certificates (revoke on signers.certificates.k8s.io, for all signers)`},
		{reason: "the ACME server", user: "acme", now: new(of(good))},
		{reason: "the ACME server, many", user: "acme", now: new(of(good, good)), want: "may not revoke certificates"},
		{reason: "a label", user: "bob", now: new(of(good)), old: new(of(good))},
		{reason: "a change", now: &other, old: new(of(good)), want: "spec: Forbidden: a Revocation does not change"},
		{reason: "deletion", old: new(of(good)), want: final},
		{reason: "deletion when one has ended", old: new(of(over, good)), want: final},
		{reason: "deletion when all have ended", old: new(of(over, over))},
		{reason: "deletion, the end is not known", old: &byFingerprint, want: final},
		{reason: "deletion, by serial number", old: &bySerial, want: final},
	}
	checks := certplane.NewRevocations(func(_ context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
		revokes := what.Verb == "revoke" && what.Group == "certificates.k8s.io" && what.Resource == "signers" && what.Name == "*"
		serves := what.Verb == "serve" && what.Group == "certplane.dev" && what.Resource == "acmeendpoints" && what.Name == "*"
		return user.Username == "" && revokes || user.Username == "acme" && serves, nil
	}, func() time.Time { return noon })
	for _, tc := range tests {
		w := certplane.RevocationWrite{User: authenticationv1.UserInfo{Username: tc.user}, Request: certplane.Request{Name: "laptop", Object: loose(t, tc.now), Old: loose(t, tc.old)}}
		switch w.Operation = admissionv1.Update; {
		case tc.old == nil:
			w.Operation = admissionv1.Create
		case tc.now == nil:
			w.Operation = admissionv1.Delete
		}
		warnings, refusal := checks.Validate(t.Context(), w)
		text := ""
		if refusal != nil {
			text = refusal.Error()
		}
		if (text == "") != (tc.want == "") || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %q, want %q", tc.reason, text, tc.want)
		}
		if warned := strings.Join(warnings, "\n"); tc.want == "" && (warned == "") != (tc.warn == "") || !strings.Contains(warned, tc.warn) {
			t.Errorf("%s: warned %q", tc.reason, warned)
		}
	}
}

func loose(t *testing.T, spec *v1alpha1.RevocationSpec) *unstructured.Unstructured {
	t.Helper()
	if spec == nil {
		return nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.Revocation{Spec: *spec})
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}
