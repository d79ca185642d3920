package signer_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

const (
	apiServerClient = certificatesv1.KubeAPIServerClientSignerName
	nodeClient      = certificatesv1.KubeAPIServerClientKubeletSignerName
	nodeServing     = certificatesv1.KubeletServingSignerName
)

var (
	now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	clientUsages = []certificatesv1.KeyUsage{"digital signature", "key encipherment", "client auth"}
)

func sign(t *testing.T, ca *pki.Authority, req request.Request) (*signer.Issued, error) {
	t.Helper()
	return local(lookup(t, apiServerClient), ca)(t.Context(), req, now)
}

func local(profile signer.Profile, ca *pki.Authority) func(context.Context, request.Request, time.Time) (*signer.Issued, error) {
	sign := signer.Local(profile, func() (*pki.Authority, error) { return ca, nil }, pki.Unrecorded)
	return func(ctx context.Context, req request.Request, now time.Time) (*signer.Issued, error) {
		return sign(ctx, req, signer.Permission{}, now)
	}
}

func lookup(t testing.TB, name string) signer.Profile {
	t.Helper()
	profile, err := signer.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

func newRoot(t testing.TB) *pki.Authority { return rootFrom(t, now) }

// oldRoot is older than any backdated certificate.
func oldRoot(t testing.TB) *pki.Authority { return rootFrom(t, now.Add(-24*time.Hour)) }

func rootFrom(t testing.TB, at time.Time) *pki.Authority {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "test root", ecKey(t), pki.DefaultRootLifetime, at)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func ecKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// asking is a request for these usages and this life, which may be nil.
func asking(pem []byte, usages []certificatesv1.KeyUsage, life *time.Duration) request.Request {
	req := request.FromCSR(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: pem, Usages: usages}})
	req.Duration = life
	return req
}

func newRequest(t testing.TB) []byte {
	t.Helper()
	return requestOf(t, ecKey(t), attribute(oidCommonName, "alice"))
}

var (
	oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidUserUID    = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
)

func attribute(id asn1.ObjectIdentifier, value string) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: id, Value: value}
}

// requestOf makes a request with exactly these attributes in its subject.
func requestOf(t testing.TB, key crypto.Signer, attributes ...pkix.AttributeTypeAndValue) []byte {
	t.Helper()
	names := pkix.RDNSequence{}
	for _, a := range attributes {
		names = append(names, pkix.RelativeDistinguishedNameSET{a})
	}
	subject, err := asn1.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{RawSubject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pki.RequestBlockType, Bytes: der})
}

func orElse[T any](v, otherwise []T) []T {
	if v == nil {
		return otherwise
	}
	return v
}
