package issuance

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// Readiness is the part of a Certificate's status that describes its
// certificate.
type Readiness struct {
	// Problem is why the Certificate is not ready; empty if it is ready.
	Problem Finding
	// The times of the certificate in the Secret; nil without one. RenewalTime
	// is also nil if it is not renewed by time.
	NotBefore, NotAfter, RenewalTime *metav1.Time
	// Again is when the answer changes with time: when the certificate expires. It is zero
	// if it has expired or does not exist.
	Again time.Time
	// Revoked is the revocation of the certificate; empty if it is not revoked.
	Revoked Finding
	// Overwritten is why the next certificate waits although the Secret has lost
	// the last one; empty if it does not.
	Overwritten Finding
	// Often is set if the Certificate asks to be renewed sooner than it is.
	Often bool
	// DropsSuggestion is set if what the status has of renewal information does
	// not count: it is about another certificate, or of another issuer.
	DropsSuggestion bool
}

// Ready reports whether a Certificate has the certificate that it asks for. An
// issuance under way does not matter: the existing certificate stays valid.
func Ready(s Situation, now time.Time) Readiness {
	i := inspect(s, now)
	checks := append([]check{(*inspection).checkConflicting}, common...)
	r := Readiness{Problem: i.find(append(checks, (*inspection).checkExpiry)...)}
	r.Revoked, r.DropsSuggestion = i.revoked(), !i.followsSuggestion()
	if r.Overwritten = s.overwritten(r.Problem, now); !r.Overwritten.None() {
		r.Problem.Message += ". " + r.Overwritten.Message
	}
	if i.leaf == nil {
		return r
	}
	r.NotBefore, r.NotAfter = timePtr(i.leaf.NotBefore), timePtr(i.leaf.NotAfter)
	if at := i.renewalTime(); !at.IsZero() {
		first := i.firstRenewal()
		r.Often = first.After(at) && i.suggested().IsZero()
		r.RenewalTime = timePtr(pki.Later(at, first))
	}
	if !now.After(i.leaf.NotAfter) {
		r.Again = i.leaf.NotAfter.Add(time.Second)
	}
	return r
}

// messageOften is the message for a Certificate that would be renewed
// continuously.
var messageOften = fmt.Sprintf("%s, and would be renewed immediately, again and again: renewals are at least %v apart, so shorten spec.renewBefore or lengthen spec.duration",
	messageReady, minRenewal)

func timePtr(t time.Time) *metav1.Time {
	at := metav1.NewTime(t)
	return &at
}

// SetReadiness writes r into the status of crt.
func SetReadiness(crt *cmv1.Certificate, r Readiness, now time.Time) {
	status, why := cmmeta.ConditionFalse, r.Problem
	if why.None() {
		status, why = cmmeta.ConditionTrue, Finding{Reason: ReasonReady, Message: messageReady}
		if r.Often {
			why.Message = messageOften
		}
	}
	certmanager.SetCertificateCondition(crt, cmv1.CertificateConditionReady, status, why.Reason, why.Message, metav1.NewTime(now))
	if r.Revoked.None() {
		certmanager.RemoveCertificateCondition(crt, ConditionRevoked)
	} else {
		certmanager.SetCertificateCondition(crt, ConditionRevoked, cmmeta.ConditionTrue, r.Revoked.Reason, r.Revoked.Message, metav1.NewTime(now))
	}
	if r.DropsSuggestion {
		crt.Status.ACME = nil
	}
	crt.Status.NotBefore, crt.Status.NotAfter, crt.Status.RenewalTime = r.NotBefore, r.NotAfter, r.RenewalTime
}
