package issuance

import (
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
	"github.com/certplane/certplane/internal/process/backoff"
)

// RepairsAnnotation of a request counts the certificates in a row, up to the one
// that it asks for, that were issued because the Secret had lost the one before, and
// names the generation of the Certificate.
const RepairsAnnotation = "certplane.dev/secret-repairs"

// ReasonSecretOverwritten is the reason of the Event about a Secret that is changed
// or deleted again and again.
const ReasonSecretOverwritten = "SecretOverwritten"

// repairPause is how long a certificate is kept from being replaced because the
// Secret has lost it. The first time it is replaced at once.
var repairPause = backoff.Backoff{First: 10 * time.Minute, Most: 32 * time.Hour}

// calmPauses is after how many pauses without a repair the next one is the first.
const calmPauses = 4

// repairReasons are the reasons to issue a certificate that other writers of the
// Secret cause.
var repairReasons = []string{
	ReasonDoesNotExist, ReasonMissingData, ReasonInvalidKeyPair, ReasonInvalidCertificate, ReasonTemporary,
	ReasonIncorrectIssuer, ReasonIncorrectCertificate, ReasonSecretMismatch,
}

// repairs returns how many certificates in a row, up to the current one, were
// issued as repairs; 0 if the Certificate has changed since.
func (s Situation) repairs() int {
	current := s.Current()
	if current == nil {
		return 0
	}
	var count int
	var generation int64
	if n, _ := fmt.Sscanf(current.Annotations[RepairsAnnotation], "%d of generation %d", &count, &generation); n != 2 || generation != s.Certificate.Generation {
		return 0
	}
	if same, err := wanted.IsRepeated(&s.Certificate.Spec, &current.Spec); err != nil || !same {
		return 0
	}
	return max(0, min(count, 100))
}

// repairedUntil returns until when the next repair waits; zero if it need not.
func (s Situation) repairedUntil(why Finding, now time.Time) time.Time {
	n := s.repairs()
	if n == 0 || !slices.Contains(repairReasons, why.Reason) {
		return time.Time{}
	}
	made := s.Current().CreationTimestamp.Time
	if age := now.Sub(made); age >= repairPause.After(n) || age < -repairPause.First { // a clock is wrong
		return time.Time{}
	}
	return made.Add(repairPause.After(n))
}

// overwritten returns why a repair waits; it is empty if it need not.
func (s Situation) overwritten(why Finding, now time.Time) Finding {
	until := s.repairedUntil(why, now)
	if !until.After(now) {
		return Finding{}
	}
	by := "another program has deleted it"
	if s.Secret != nil {
		by = "another program has written it"
		if who := secret.Writer(s.Secret); who != "" {
			by = fmt.Sprintf("it was last written by %q", who)
		}
	}
	return found(ReasonSecretOverwritten,
		"Secret %q has lost its certificate again, %d times in a row by now: %s. The next certificate is issued at %s, unless the Secret has one before: stop the other program or choose another spec.secretName. %q issues at once",
		s.Certificate.Spec.SecretName, s.repairs()+1, by, until.UTC().Format(time.RFC3339), "certplane renew")
}

// MarkRepair counts in the request for the next certificate that it repairs the
// Secret, if that is why it is made.
func MarkRepair(s Situation, cr *cmv1.CertificateRequest, now time.Time) {
	issuing := certmanager.CertificateCondition(s.Certificate, cmv1.CertificateConditionIssuing)
	current := s.Current()
	if issuing == nil || current == nil || !slices.Contains(repairReasons, issuing.Reason) {
		return
	}
	n := s.repairs()
	if now.Sub(current.CreationTimestamp.Time) > calmPauses*repairPause.After(n) {
		n = 0
	}
	cr.Annotations[RepairsAnnotation] = fmt.Sprintf("%d of generation %d", n+1, s.Certificate.Generation)
}
