package request

import (
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/atomicfile"
	"github.com/certplane/certplane/internal/process/duration"
)

// deliver writes the issued chain after checking that it is for the run's key.
func (r *run) deliver(csr *certificatesv1.CertificateSigningRequest) error {
	chain, err := pki.ParseCertificates(csr.Status.Certificate)
	if err != nil {
		return fmt.Errorf("reading the issued certificate: %w", err)
	}
	leaf := chain[0]
	if !pki.SameKey(leaf.PublicKey, r.key.Public()) {
		return errors.New("the issued certificate is for another key; it was not written")
	}
	requested, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return fmt.Errorf("reading the request back: %w", err)
	}
	if err := r.save(chain); err != nil {
		return err
	}
	if r.Deliver != nil {
		if err := r.Deliver(chain, r.key.Signer); err != nil {
			return err
		}
	}
	for _, surprise := range surprises(csr.Spec, requested, leaf, r.Now()) {
		r.warn("%s", surprise)
	}
	return nil
}

// save writes the chain into the folder, if there is one.
func (r *run) save(chain []*x509.Certificate) error {
	if r.Out == "" {
		return nil
	}
	path := filepath.Join(r.Out, chainName)
	if err := atomicfile.Write(path, pki.EncodeCertificates(chain...), 0o644); err != nil {
		return fmt.Errorf("saving the certificate: %w", err)
	}
	r.say("wrote %s: %s, valid until %s", path, nameOf(chain[0]), chain[0].NotAfter.Format(time.RFC3339))
	r.say("its private key is %s", r.key.path)
	return nil
}

func nameOf(cert *x509.Certificate) string {
	if subject := cert.Subject.String(); subject != "" {
		return subject
	}
	return strings.Join(pki.CertificateNames(cert), ", ")
}

// surprises returns the ways in which a certificate differs from the request. A
// signer is permitted to make each of these changes, but the user should not
// learn of them from an outage.
func surprises(spec certificatesv1.CertificateSigningRequestSpec, requested *pki.Request, leaf *x509.Certificate, now time.Time) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if got, want := leaf.Subject.String(), requested.Subject.String(); got != want {
		add("the certificate's subject is %q, requested was %q", got, want)
	}
	for _, name := range missing(pki.RequestNames(requested), pki.CertificateNames(leaf)) {
		add("the certificate lacks the name %s", name)
	}
	for _, usage := range missingUsages(spec.Usages, leaf) {
		add("the certificate lacks the usage %q", usage)
	}
	for _, usage := range extraUsages(spec.Usages, leaf) {
		add("the certificate has the usage %q, which was not requested", usage)
	}
	if got, honoured := lifetime(spec.ExpirationSeconds, leaf); !honoured {
		add("the certificate is valid for %s, requested was %s", duration.Format(got), duration.Format(time.Duration(*spec.ExpirationSeconds)*time.Second))
	}
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		add("the certificate is valid from %s to %s, which excludes now", leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	return out
}

func missing(want, have []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(have, name) })
}

// lifetime returns the lifetime of a certificate, and whether it equals the requested one
// within the tolerance of KEP-2784: five minutes for backdating plus a twentieth.
func lifetime(requested *int32, cert *x509.Certificate) (got time.Duration, honoured bool) {
	got = cert.NotAfter.Sub(cert.NotBefore)
	if requested == nil {
		return got, true
	}
	want := time.Duration(*requested) * time.Second
	return got, (want - got).Abs() < 5*time.Minute+want/20
}
