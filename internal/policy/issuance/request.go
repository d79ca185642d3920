package issuance

import (
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
	"github.com/certplane/certplane/internal/policy/request"
)

// The reasons of Events about requests.
const (
	EventRequested     = "Requested"
	EventRequestFailed = "RequestFailed"
)

// RequestPlan lists the changes to the requests of a Certificate that is being issued.
type RequestPlan struct {
	// Delete are requests that cannot succeed, with the reason for each.
	Delete []StaleRequest
	// Keep is the request for the next certificate, or nil.
	Keep *cmv1.CertificateRequest
	// Create means that the caller must create a request with NewRequest, once
	// all of Delete are deleted: the new one may have the name of one of them.
	Create bool
}

// StaleRequest is a request that is deleted.
type StaleRequest struct {
	Request *cmv1.CertificateRequest
	Why     string
}

// PlanRequest decides which requests a Certificate keeps while it is issued with the key
// that waits for the next certificate. It changes nothing for a Certificate that is not
// being issued, is being deleted, or whose Secret belongs to another Certificate: the
// operator may still want to renew such a certificate manually.
func PlanRequest(s Situation, key crypto.PublicKey) RequestPlan {
	if !isIssuing(s.Certificate) || isDeleted(s.Certificate) || s.conflicting() != nil {
		return RequestPlan{}
	}
	var plan RequestPlan
	var good []*cmv1.CertificateRequest
	for _, cr := range s.Requests {
		revision, ok := Revision(cr)
		switch why := s.staleReason(cr, key); {
		case !ok:
			plan.Delete = append(plan.Delete, StaleRequest{cr, "it does not name its revision"})
		case revision != NextRevision(s.Certificate):
		case why != "":
			plan.Delete = append(plan.Delete, StaleRequest{cr, why})
		default:
			good = append(good, cr)
		}
	}
	plan.Keep = preferredRequest(good, RequestName(s.Certificate))
	for _, cr := range good {
		if cr != plan.Keep {
			plan.Delete = append(plan.Delete, StaleRequest{cr, fmt.Sprintf("it asks for the same as %q", plan.Keep.Name)})
		}
	}
	plan.Create = plan.Keep == nil
	return plan
}

// preferredRequest returns a request that has its certificate; otherwise the
// one with the usual name; otherwise the first.
func preferredRequest(requests []*cmv1.CertificateRequest, name string) *cmv1.CertificateRequest {
	best := first(requests)
	if best == nil || certmanager.ReadyReason(best) == cmv1.CertificateRequestReasonIssued {
		return best
	}
	for _, cr := range requests {
		if cr.Name == name {
			return cr
		}
	}
	return best
}

// staleReason returns why a request for the next certificate cannot succeed;
// empty if it can.
func (s Situation) staleReason(cr *cmv1.CertificateRequest, key crypto.PublicKey) string {
	if why := s.differs(cr, key); why != "" {
		return why
	}
	switch {
	case s.isStale(cr):
		return "it failed before this issuance began"
	case s.isOfOtherAttempt(cr):
		return "it belongs to an earlier issuance, whose private key no longer exists"
	}
	return ""
}

// differs returns in what a request differs from the Certificate's spec; empty
// if in nothing.
func (s Situation) differs(cr *cmv1.CertificateRequest, key crypto.PublicKey) string {
	differences, err := wanted.RequestDifferences(&s.Certificate.Spec, &cr.Spec)
	switch {
	case err != nil:
		return err.Error()
	case len(differences) > 0:
		return fmt.Sprintf("the Certificate has changed since: %s", list(differences))
	}
	csr, err := certmanager.ParseRequest(cr.Spec.Request)
	if err != nil || !pki.SameKey(csr.PublicKey, key) {
		return "it was made with another private key"
	}
	return ""
}

// isStale reports whether a request failed in an earlier attempt: it must not
// end this one. For issuers that set no failureTime, the time of their
// condition counts.
func (s Situation) isStale(cr *cmv1.CertificateRequest) bool {
	issuing := certmanager.CertificateCondition(s.Certificate, cmv1.CertificateConditionIssuing)
	ended := endedAt(cr)
	return issuing != nil && issuing.LastTransitionTime != nil && ended != nil && ended.Before(issuing.LastTransitionTime)
}

// isOfOtherAttempt reports whether a request was made in an earlier attempt and has no
// certificate: each attempt has its key in a separate Secret, so that attempts can be
// distinguished even if the key stays the same and they are less than a second apart. Such
// a request may have failed, and self-signed issuers read its key from the Secret that it
// names.
func (s Situation) isOfOtherAttempt(cr *cmv1.CertificateRequest) bool {
	name, next := keyName(cr), s.Certificate.Status.NextPrivateKeySecretName
	return name != "" && next != nil && name != *next && !isIssued(cr)
}

// IsAnswered reports whether a request has its certificate, or will never have one.
func IsAnswered(cr *cmv1.CertificateRequest) bool {
	return certmanager.ReadyReason(cr) == cmv1.CertificateRequestReasonIssued || verdict(cr) != nil
}

// endedAt returns when a request failed; nil if it has not, or the time is not
// known.
func endedAt(cr *cmv1.CertificateRequest) *metav1.Time {
	ended := verdict(cr)
	switch {
	case ended == nil:
		return nil
	case cr.Status.FailureTime != nil:
		return cr.Status.FailureTime
	}
	return ended.LastTransitionTime
}

// verdict returns the condition that ends a request without a certificate, or
// nil. A denial counts, no matter what has happened since.
func verdict(cr *cmv1.CertificateRequest) *cmv1.CertificateRequestCondition {
	for _, kind := range []cmv1.CertificateRequestConditionType{cmv1.CertificateRequestConditionDenied, cmv1.CertificateRequestConditionInvalidRequest} {
		if certmanager.RequestIs(cr, kind) {
			return certmanager.RequestCondition(cr, kind)
		}
	}
	if ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady); ready != nil &&
		ready.Status != cmmeta.ConditionTrue && ready.Reason == cmv1.CertificateRequestReasonFailed {
		return ready
	}
	return nil
}

// NewRequest makes the request for the next certificate, signed with the key in
// the Secret that status.nextPrivateKeySecretName names. copied selects the
// annotations of the Certificate to copy. It fails for a spec that cannot be
// expressed in a request. A retry does not help, so the caller must end the
// issuance with Backoff.SetFailed and EventRequestFailed; a changed spec is
// tried at once.
func NewRequest(crt *cmv1.Certificate, key crypto.Signer, copied CopiedAnnotations) (*cmv1.CertificateRequest, error) {
	csr, err := wanted.Request(&crt.Spec, key)
	if err != nil {
		return nil, err
	}
	cr := newRequest(crt, csr, copied)
	// A request that differs from its Certificate would be deleted, with the
	// certificate that it gets, and made again without end.
	switch differences, err := wanted.RequestDifferences(&crt.Spec, &cr.Spec); {
	case err != nil:
		return nil, err
	case len(differences) > 0:
		return nil, fmt.Errorf("the request would read differently than the Certificate: write %s in the usual way", list(differences))
	}
	return cr, nil
}

// UnsignedRequest is NewRequest for a key that is not made yet, without a
// signature: it shows what a Certificate will request. It must not be stored.
func UnsignedRequest(crt *cmv1.Certificate, copied CopiedAnnotations) (*cmv1.CertificateRequest, error) {
	csr, err := wanted.Unsigned(&crt.Spec)
	if err != nil {
		return nil, err
	}
	return newRequest(crt, csr, copied), nil
}

func newRequest(crt *cmv1.Certificate, csr []byte, copied CopiedAnnotations) *cmv1.CertificateRequest {
	annotations := copied.CopyFrom(crt.Annotations)
	annotations[cmv1.CertificateNameKey] = crt.Name
	annotations[cmv1.CertificateRequestRevisionAnnotationKey] = strconv.Itoa(NextRevision(crt))
	if name := crt.Status.NextPrivateKeySecretName; name != nil {
		annotations[cmv1.CertificateRequestPrivateKeyAnnotationKey] = *name
	}
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: crt.Namespace, Name: RequestName(crt),
			Annotations: annotations, Labels: maps.Clone(crt.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(crt, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind))},
		},
		Spec: cmv1.CertificateRequestSpec{
			Request: csr, Duration: crt.Spec.Duration, IssuerRef: crt.Spec.IssuerRef, IsCA: crt.Spec.IsCA, Usages: crt.Spec.Usages,
		},
	}
}

// maxBase is the maximum length of a Certificate's name for it to be used
// unchanged in the names of its requests: twenty characters remain for the
// revision.
const maxBase = 233

// RequestName is the name of the request for the next certificate. It is the
// same for each attempt, so that two controllers that are not aware of each
// other do not both create one.
func RequestName(crt *cmv1.Certificate) string {
	base := crt.Name
	if len(base) > maxBase {
		sum := sha256.Sum256([]byte(base))
		hash := hex.EncodeToString(sum[:])
		// The part before a hyphen must not end with a dot.
		base = strings.TrimRight(base[:maxBase-len(hash)-1], ".-") + "-" + hash
	}
	return fmt.Sprintf("%s-%d", base, NextRevision(crt))
}

// CopiedAnnotations are prefixes of the annotations that requests inherit from their
// Certificate. "*" means all. Among other prefixes, the last one in the list that matches
// an annotation decides; a prefix that begins with "-" excludes it. The reason for
// overriding policies belongs to one request and is never inherited.
type CopiedAnnotations []string

// neverCopied are annotations that are about one request.
var neverCopied = []string{v1alpha1.AnnotationOverride, RepairsAnnotation, request.AnnotationSubjectKeyID}

// CopyFrom returns those annotations that are inherited.
func (c CopiedAnnotations) CopyFrom(annotations map[string]string) map[string]string {
	copied := make(map[string]string)
	for key, value := range annotations {
		if !slices.Contains(neverCopied, key) && c.includes(key) {
			copied[key] = value
		}
	}
	return copied
}

func (c CopiedAnnotations) includes(key string) bool {
	included := false
	for _, prefix := range c {
		included = included || prefix == "*"
	}
	for _, prefix := range c {
		if without, excludes := strings.CutPrefix(prefix, "-"); excludes && strings.HasPrefix(key, without) {
			included = false
		} else if strings.HasPrefix(key, prefix) {
			included = true
		}
	}
	return included
}
