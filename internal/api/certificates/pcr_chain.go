package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

const (
	// maxChainBytes bounds the size of the chain in an issued request.
	maxChainBytes = 100 << 10
	// maxSkew is how far from now a new certificate may start.
	maxSkew = 5 * time.Minute
	// refreshMargin keeps the time to refresh away from both ends of a
	// certificate's lifetime.
	refreshMargin = 10 * time.Minute
	// minPodLifetime is the minimum lifetime of a pod's certificate.
	minPodLifetime = MinPodExpirationSeconds * time.Second
)

// unshown replaces a chain in errors: the chain can be large and adds nothing
// to the detail.
const unshown = "<certificate chain>"

// validateIssuance checks the status of a request that a signer has issued. The
// signer decides what the certificate contains, but it must be for this key and
// this time.
func validateIssuance(request *podRequest, now time.Time) field.ErrorList {
	chainPath := field.NewPath("status", "certificateChain")
	chain := request.Status.CertificateChain
	if len(chain) > maxChainBytes {
		return field.ErrorList{field.TooLong(chainPath, chain, maxChainBytes)}
	}
	leaf, rest, err := nextCertificate([]byte(chain))
	if err == nil && leaf == nil {
		err = errors.New("must contain at least one CERTIFICATE PEM block")
	}
	if err != nil {
		return field.ErrorList{field.Invalid(chainPath, unshown, err.Error())}
	}
	errs := validateLeafNames(leaf, chainPath)
	if keyErrs := validateLeafKey(request, leaf, chainPath); len(keyErrs) > 0 {
		return append(errs, keyErrs...)
	}
	if errs = append(errs, requireTimes(request.Status)...); len(errs) > 0 {
		return errs
	}
	if err := checkTimes(request, leaf, now); err != nil {
		return field.ErrorList{err}
	}
	if err := checkRest(rest); err != nil {
		return field.ErrorList{field.Invalid(chainPath, unshown, err.Error())}
	}
	return nil
}

// nextCertificate reads the first PEM block of data, which must be a certificate. It
// returns nil if data contains no block. Any headers in blocks and any text around them are
// allowed.
func nextCertificate(data []byte) (*x509.Certificate, []byte, error) {
	block, rest := pem.Decode(data)
	if block == nil {
		return nil, nil, nil
	}
	if block.Type != pki.CertificateBlockType {
		return nil, nil, fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	return certificate, rest, err
}

func checkRest(data []byte) error {
	for {
		certificate, rest, err := nextCertificate(data)
		if certificate == nil || err != nil {
			return err
		}
		data = rest
	}
}

// validateLeafNames reports names that no verifier would accept.
func validateLeafNames(leaf *x509.Certificate, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range leaf.DNSNames {
		if name == "" || strings.Contains(name, "..") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(fldPath, unshown, fmt.Sprintf("the leaf certificate has the DNS name %q, which is not valid", name)))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(fldPath, unshown, fmt.Sprintf("the leaf certificate has the email address %q, which is not valid: %v", address, err)))
		}
	}
	return errs
}

func validateLeafKey(request *podRequest, leaf *x509.Certificate, fldPath *field.Path) field.ErrorList {
	key, err := PodRequestKey(&request.Spec)
	if err != nil {
		at := field.NewPath("spec", "stubPKCS10Request")
		if len(request.Spec.StubPKCS10Request) == 0 {
			at = field.NewPath("spec", "pkixPublicKey")
		}
		return field.ErrorList{field.Invalid(at, "<key data>", err.Error())}
	}
	if !pki.SameKey(leaf.PublicKey, key) {
		return field.ErrorList{field.Invalid(fldPath, unshown, "the leaf certificate is for another key than the requested one")}
	}
	return nil
}

func requireTimes(status certificatesv1beta1.PodCertificateRequestStatus) field.ErrorList {
	var errs field.ErrorList
	for _, required := range []struct {
		name string
		time *metav1.Time
	}{{"notBefore", status.NotBefore}, {"notAfter", status.NotAfter}, {"beginRefreshAt", status.BeginRefreshAt}} {
		if required.time == nil {
			errs = append(errs, field.Required(field.NewPath("status", required.name), "must be set together with certificateChain"))
		}
	}
	return errs
}

// checkTimes compares the times in the status and in the certificate with each other, with
// the request and with now.
func checkTimes(request *podRequest, leaf *x509.Certificate, now time.Time) *field.Error {
	status, path := request.Status, field.NewPath("status")
	lifetime := leaf.NotAfter.Sub(leaf.NotBefore)
	skew := leaf.NotBefore.Sub(now).Abs()
	switch {
	case !status.NotBefore.Time.Equal(leaf.NotBefore):
		return field.Invalid(path.Child("notBefore"), status.NotBefore, "must be the notBefore of the leaf certificate, "+stamp(leaf.NotBefore))
	case skew >= maxSkew:
		return field.Invalid(path.Child("notBefore"), status.NotBefore, fmt.Sprintf("must be within %v of now, %s", maxSkew, stamp(now)))
	case !status.NotAfter.Time.Equal(leaf.NotAfter):
		return field.Invalid(path.Child("notAfter"), status.NotAfter, "must be the notAfter of the leaf certificate, "+stamp(leaf.NotAfter))
	case lifetime < minPodLifetime:
		return field.Invalid(path.Child("certificateChain"), unshown, fmt.Sprintf("the leaf certificate lasts %v, less than the least allowed %v", lifetime, minPodLifetime))
	case lifetime > maxPodLifetime(request):
		return field.Invalid(path.Child("certificateChain"), unshown, fmt.Sprintf("the leaf certificate lasts %v, more than the requested %v", lifetime, maxPodLifetime(request)))
	case status.BeginRefreshAt.Time.Before(leaf.NotBefore.Add(refreshMargin)):
		return field.Invalid(path.Child("beginRefreshAt"), status.BeginRefreshAt, fmt.Sprintf("must be at least %v after notBefore", refreshMargin))
	case status.BeginRefreshAt.Time.After(leaf.NotAfter.Add(-refreshMargin)):
		return field.Invalid(path.Child("beginRefreshAt"), status.BeginRefreshAt, fmt.Sprintf("must be at least %v before notAfter", refreshMargin))
	default:
		return nil
	}
}

// maxPodLifetime returns the maximum that the request allows. Stored requests
// always have one.
func maxPodLifetime(request *podRequest) time.Duration {
	if request.Spec.MaxExpirationSeconds == nil {
		return DefaultPodExpirationSeconds * time.Second
	}
	return time.Duration(*request.Spec.MaxExpirationSeconds) * time.Second
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
