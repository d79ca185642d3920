package issuance

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

// wantsTemporary: a Certificate can ask for something to serve with until its
// issuer has answered. It gets that once the request has been approved and the
// issuer has begun to work on it, if its Secret has nothing that can be served.
func (s Situation) wantsTemporary(cr *cmv1.CertificateRequest, now time.Time) bool {
	if s.Certificate.Annotations[cmv1.IssueTemporaryCertificateAnnotation] != "true" ||
		certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady) == nil {
		return false
	}
	pair := inspect(s, now).find((*inspection).checkExists, (*inspection).checkData, (*inspection).checkPair)
	return !pair.None()
}

// Temporary makes a certificate in PEM for a request that nobody can trust: its
// CA exists for this one alone.
func Temporary(cr *cmv1.CertificateRequest, now time.Time) ([]byte, error) {
	csr, err := certmanager.ParseRequest(cr.Spec.Request)
	if err != nil {
		return nil, fmt.Errorf("reading spec.request: %w", err)
	}
	usages, err := certmanager.Usages(cr.Spec.Usages, cr.Spec.IsCA)
	if err != nil {
		return nil, err
	}
	lifetime := certmanager.DefaultDuration
	if cr.Spec.Duration != nil {
		lifetime = cr.Spec.Duration.Duration
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	ca, err := pki.NewRoot(secret.TemporaryIssuer, key, lifetime, now)
	if err != nil {
		return nil, err
	}
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := pki.VerbatimTemplate(csr.CertificateRequest, key.Public(), pki.Terms{
		Usages: usages, IsCA: cr.Spec.IsCA, Serial: serial,
		Validity: pki.Validity{NotBefore: now, NotAfter: ca.Validity().NotAfter},
	})
	if err != nil {
		return nil, err
	}
	return signTemporary(ca, template)
}

func signTemporary(ca *pki.Authority, template *x509.Certificate) ([]byte, error) {
	lint := ca.Lint
	if template.IsCA {
		lint = ca.LintCA
	}
	linted, err := lint(template, pki.Policy{})
	if err != nil {
		return nil, err
	}
	cert, err := linted.Sign(context.Background(), pki.Unrecorded, pki.Purpose{})
	if err != nil {
		return nil, err
	}
	return pki.EncodeCertificates(cert), nil
}
