package signers

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
)

// reasonReady is the reason of signers without a problem.
const reasonReady = "Signing"

// statusOf returns the status of a Signer, except for the counts. It depends
// only on its arguments, so that it stays the same while nothing changes.
func statusOf(s *v1alpha1.Signer, st state, now time.Time) v1alpha1.SignerStatus {
	status := *s.Status.DeepCopy()
	status.ObservedGeneration = s.Generation
	meta.SetStatusCondition(&status.Conditions, readyOf(s, st, now))
	status.FormerCAs = formerOf(s, status, st, now)
	if cert := st.issuer.certificate(); cert != nil {
		ca := caStatus(cert)
		if st.profile != nil {
			was := status.CA
			if was != nil && was.Fingerprint != ca.Fingerprint {
				was = nil
			}
			ca.LongestLifetime = &metav1.Duration{Duration: longestUnder(was, st.profile)}
		}
		status.CA = ca
	} else if st.issuer != nil { // an endpoint's is not known
		status.CA = nil
	}
	status.NextCA = nextOf(st)
	switch {
	case s.Spec.CA.Generated == nil:
		status.GeneratedSecret = ""
	case st.issuer != nil && st.issuer.generated.Current.Authority != nil:
		status.GeneratedSecret = generatedName(s)
	}
	return status
}

func readyOf(s *v1alpha1.Signer, st state, now time.Time) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.Ready, Status: metav1.ConditionTrue, Reason: reasonReady, ObservedGeneration: s.Generation}
	switch {
	case st.problem != nil && st.signs(now):
		ready.Reason, ready.Message = st.problem.reason, st.problem.message+"; the previous CA still signs"
	case st.problem != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, st.problem.reason, st.problem.message
	case st.issuer.ca == nil:
		ready.Message = "Certificates are signed at " + s.Spec.CA.Webhook.URL
	default:
		cert := st.issuer.certificate()
		ready.Message = fmt.Sprintf("Certificates are signed by %s, which expires on %s", cert.Subject, cert.NotAfter.Format(time.RFC3339))
	}
	return ready
}

func caStatus(cert *x509.Certificate) *v1alpha1.CAStatus {
	return &v1alpha1.CAStatus{
		Fingerprint: pki.Fingerprint(cert), Subject: cert.Subject.String(), SubjectKeyID: hex.EncodeToString(cert.SubjectKeyId),
		NotBefore: metav1.NewTime(cert.NotBefore), NotAfter: metav1.NewTime(cert.NotAfter),
	}
}

// nextOf returns the CA that is about to replace the current one; nil without a next CA.
func nextOf(st state) *v1alpha1.CAStatus {
	if st.issuer == nil || st.issuer.generated.Next.Authority == nil {
		return nil
	}
	next := caStatus(st.issuer.generated.Next.Certificate())
	if from := st.issuer.generated.TakesOver; !from.IsZero() && from.Before(rotation.Never) {
		next.SignsFrom = &metav1.Time{Time: from}
	}
	return next
}

// formerOf returns the CAs before the current one, as long as their certificates can be
// valid.
func formerOf(s *v1alpha1.Signer, status v1alpha1.SignerStatus, st state, now time.Time) []v1alpha1.CAStatus {
	former := status.FormerCAs
	cert := st.issuer.certificate()
	if was := status.CA; was != nil && cert != nil && was.Fingerprint != pki.Fingerprint(cert) && st.profile != nil {
		left := *was
		until := rotation.TrustUntil(was.NotAfter.Time, longestUnder(was, st.profile)+overlapMargin, now)
		left.TrustedUntil, left.ReplacedTime = &metav1.Time{Time: until}, &metav1.Time{Time: now.UTC().Truncate(time.Second)}
		former = append([]v1alpha1.CAStatus{left}, former...)
	}
	former = slices.DeleteFunc(slices.Clone(former), func(ca v1alpha1.CAStatus) bool {
		return ca.TrustedUntil == nil || distrusts(s, ca.Fingerprint) || !now.Before(ca.TrustedUntil.Time) || cert != nil && ca.Fingerprint == pki.Fingerprint(cert)
	})
	if len(former) == 0 {
		return nil
	}
	return former
}

// writeStatus writes a status, with the counts, if it differs from that of s.
// It succeeds only if the Signer has not changed since it was read.
func (c *controller) writeStatus(ctx context.Context, s *v1alpha1.Signer, status v1alpha1.SignerStatus, counts *declared.Counts) error {
	tally := counts.Get()
	status.Issued += tally.Issued
	status.Refused += tally.Refused
	if tally.Issued > 0 {
		last := metav1.NewTime(tally.Last.Truncate(time.Second))
		status.LastIssuedTime = &last
	}
	if equality.Semantic.DeepEqual(s.Status, status) {
		return nil
	}
	changed := s.DeepCopy()
	changed.Status = status
	if err := c.Client.Status().Update(ctx, changed); err != nil {
		return err
	}
	counts.Written(tally)
	return nil
}
