package issuance

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/renewal"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

// check finds a problem with the content of a Secret.
type check func(*inspection) Finding

// common are the checks that decide both whether a certificate is issued and
// whether a Certificate is ready, in order of precedence. Each relies on the
// checks before it.
var common = []check{
	(*inspection).checkExists,
	(*inspection).checkData,
	(*inspection).checkPair,
	(*inspection).checkTemporary,
	(*inspection).checkIssuer,
	(*inspection).checkName,
	(*inspection).checkRevoked,
	(*inspection).checkKey,
	(*inspection).checkKeyOfRequest,
	(*inspection).checkRequest,
}

// inspection is a situation that is being checked.
type inspection struct {
	Situation
	now time.Time
	// leaf is the certificate in the Secret; nil if it cannot be read.
	leaf *x509.Certificate
	// key and leafErr are set by checkPair.
	key     crypto.Signer
	leafErr error
}

func inspect(s Situation, now time.Time) *inspection {
	i := &inspection{Situation: s, now: now}
	if s.Secret == nil {
		return i
	}
	certs, err := pki.ParseBundle(s.Secret.Data[corev1.TLSCertKey])
	if i.leafErr = err; err == nil {
		i.leaf = certs[0]
	}
	return i
}

// find returns the first finding of the checks that is not empty.
func (i *inspection) find(checks ...check) Finding {
	for _, check := range checks {
		if found := check(i); !found.None() {
			return found
		}
	}
	return Finding{}
}

func found(reason, format string, args ...any) Finding {
	return Finding{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (i *inspection) spec() *cmv1.CertificateSpec { return &i.Certificate.Spec }

func (i *inspection) checkExists() Finding {
	if i.Secret == nil {
		return found(ReasonDoesNotExist, "Issuing certificate as Secret does not exist")
	}
	return Finding{}
}

func (i *inspection) checkData() Finding {
	missing := ""
	switch data := i.Secret.Data; {
	case len(data) == 0:
		missing = "any data"
	case len(data[corev1.TLSPrivateKeyKey]) == 0:
		missing = "a private key"
	case len(data[corev1.TLSCertKey]) == 0:
		missing = "a certificate"
	default:
		return Finding{}
	}
	return found(ReasonMissingData, "Issuing certificate as Secret does not contain %s", missing)
}

func (i *inspection) checkPair() Finding {
	key, err := pki.ParsePrivateKey(i.Secret.Data[corev1.TLSPrivateKeyKey])
	switch {
	case err != nil:
		return found(ReasonInvalidKeyPair, "Issuing certificate as Secret contains an invalid private key: %v", err)
	case i.leafErr != nil:
		return found(ReasonInvalidCertificate, "Issuing certificate as Secret contains an invalid certificate: %v", i.leafErr)
	case !pki.SameKey(key.Public(), i.leaf.PublicKey):
		return found(ReasonInvalidKeyPair, "Issuing certificate as Secret contains a private key that does not belong to the certificate")
	}
	i.key = key
	return Finding{}
}

func (i *inspection) checkTemporary() Finding {
	if secret.IsTemporary(i.Secret) {
		return found(ReasonTemporary, "Issuing certificate as Secret contains a temporary certificate, which no client trusts")
	}
	return Finding{}
}

// checkIssuer treats a Secret without annotations about its issuer as one from
// the Issuer, not the ClusterIssuer, with the name in spec.issuerRef.
func (i *inspection) checkIssuer() Finding {
	says := i.Secret.Annotations
	former := cmmeta.IssuerReference{
		Name: says[cmv1.IssuerNameAnnotationKey], Kind: says[cmv1.IssuerKindAnnotationKey], Group: says[cmv1.IssuerGroupAnnotationKey],
	}
	if !hasAny(says, cmv1.IssuerNameAnnotationKey, cmv1.IssuerKindAnnotationKey, cmv1.IssuerGroupAnnotationKey) {
		former.Name = i.spec().IssuerRef.Name
	}
	if certmanager.SameIssuer(former, i.spec().IssuerRef) {
		return Finding{}
	}
	return found(ReasonIncorrectIssuer, "Issuing certificate as Secret was previously issued by %q",
		fmt.Sprintf("%s.%s/%s", certmanager.IssuerKind(former), certmanager.IssuerGroup(former), former.Name))
}

func hasAny(annotations map[string]string, keys ...string) bool {
	for _, key := range keys {
		if _, has := annotations[key]; has {
			return true
		}
	}
	return false
}

func (i *inspection) checkName() Finding {
	name := i.Secret.Annotations[cmv1.CertificateNameKey]
	if name == "" || name == i.Certificate.Name {
		return Finding{}
	}
	return found(ReasonIncorrectCertificate, "Secret was issued for %q. If this message is not transient, you might have two conflicting Certificates pointing to the same secret.", name)
}

func (i *inspection) checkKey() Finding {
	differences := wanted.KeyDifferences(i.spec(), i.key.Public())
	if len(differences) == 0 {
		return Finding{}
	}
	return found(ReasonSecretMismatch, "Existing private key is not up to date for spec: %s", list(differences))
}

func list(fields []string) string { return "[" + strings.Join(fields, ", ") + "]" }

func (i *inspection) checkKeyOfRequest() Finding {
	current := i.Current()
	if current == nil {
		return Finding{}
	}
	csr, err := certmanager.ParseRequest(current.Spec.Request)
	switch {
	case err != nil:
		return found(ReasonInvalidRequest, "Failed to decode current CertificateRequest: %v", err)
	case !pki.SameKey(csr.PublicKey, i.key.Public()):
		return found(ReasonSecretMismatch, "Secret contains a private key that does not match the current CertificateRequest")
	}
	return Finding{}
}

// checkRequest compares the certificate itself if its request does not exist,
// as after a restore.
func (i *inspection) checkRequest() Finding {
	current := i.Current()
	if current == nil {
		return i.checkNames()
	}
	differences, err := wanted.RequestDifferences(i.spec(), &current.Spec)
	switch {
	case err != nil:
		return found(ReasonInvalidRequest, "Failed to decode current CertificateRequest: %v", err)
	case len(differences) > 0:
		return found(ReasonRequestChanged, "Fields on existing CertificateRequest resource not up to date: %s", list(differences))
	}
	return Finding{}
}

func (i *inspection) checkNames() Finding {
	differences := wanted.CertificateDifferences(i.spec(), i.leaf)
	if len(differences) == 0 {
		return Finding{}
	}
	return found(ReasonSecretMismatch, "Existing issued Secret is not up to date for spec: %s", list(differences))
}

// checkRenewal is only for starting an issuance.
func (i *inspection) checkRenewal() Finding {
	due := i.renewalTime()
	if due.IsZero() || i.now.Before(due) {
		return Finding{}
	}
	return found(ReasonRenewing, "Renewing certificate as renewal was scheduled at %s", due.UTC().Format(time.RFC3339))
}

// renewalTime returns zero without a certificate, or if it is not renewed by time.
func (i *inspection) renewalTime() time.Time {
	if i.leaf == nil {
		return time.Time{}
	}
	if at := i.suggested(); !at.IsZero() {
		return renewal.Suggested(i.spec(), i.validity(), at, i.now)
	}
	return renewal.Time(i.spec(), i.validity(), i.now)
}

func (i *inspection) validity() pki.Validity {
	return pki.Validity{NotBefore: i.leaf.NotBefore, NotAfter: i.leaf.NotAfter}
}

// windowsMissed returns a warning if a certificate is renewed outside of its
// renewal windows.
func (i *inspection) windowsMissed() Finding {
	due := i.suggested()
	if !due.IsZero() {
		due = renewal.SuggestedDue(i.spec(), i.validity(), due)
	}
	if why := renewal.Outside(i.spec(), i.validity(), due, i.now); why != "" {
		return found(ReasonWindowError, "Renewing certificate without satisfying renewal windows: %s", why)
	}
	return Finding{}
}

// checkExpiry is only for readiness.
func (i *inspection) checkExpiry() Finding {
	if !i.now.After(i.leaf.NotAfter) {
		return Finding{}
	}
	return found(ReasonExpired, "Certificate expired on %s", i.leaf.NotAfter.UTC().Format(time.RFC1123))
}

// checkConflicting comes first for readiness: a Certificate that shares its
// secretName must not be ready because of the other's Secret.
func (i *inspection) checkConflicting() Finding {
	conflicting := i.conflicting()
	if conflicting == nil {
		return Finding{}
	}
	return found(ReasonIncorrectCertificate, "Secret %q belongs to Certificate %q, which names it too: choose another spec.secretName for one of the two", i.spec().SecretName, conflicting.Name)
}
