package issuers

import (
	"errors"
	"fmt"
	"time"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// The reasons of the Ready condition.
const (
	// ReasonVerified: an issuer of type CA has its CA.
	ReasonVerified = "KeyPairVerified"
	// ReasonReady: an issuer of type SelfSigned needs nothing.
	ReasonReady = "IsReady"
	// ReasonGetKeyPair: the CA is not there or cannot be read.
	ReasonGetKeyPair = "ErrGetKeyPair"
	// ReasonInvalidKeyPair: what is there cannot be a CA, or not at this time.
	ReasonInvalidKeyPair = "ErrInvalidKeyPair"
	// ReasonNotSupported: nobody here works for issuers of this type.
	ReasonNotSupported = "NotSupported"
	// ReasonTypeMissing: the spec says nothing.
	ReasonTypeMissing = "IssuerTypeMissing"
)

// verdict is what an issuer's Ready condition says.
type verdict struct {
	ready           bool
	reason, message string
	// again is when it changes by itself; zero: never.
	again time.Time
}

func unready(reason, format string, args ...any) verdict {
	return verdict{reason: reason, message: fmt.Sprintf(format, args...)}
}

func (v verdict) status() cmmeta.ConditionStatus {
	if v.ready {
		return cmmeta.ConditionTrue
	}
	return cmmeta.ConditionFalse
}

// checkType judges issuers without looking at anything else. ok is false for
// those whose Secret has to be seen.
func checkType(t certmanager.IssuerType) (v verdict, ok bool) {
	switch {
	case t == certmanager.TypeCA:
		return verdict{}, false
	case t == certmanager.TypeSelfSigned:
		return verdict{ready: true, reason: ReasonReady}, true
	case t == certmanager.NoType:
		return unready(ReasonTypeMissing, "The issuer has no type: set spec.ca or spec.selfSigned"), true
	default:
		return unready(ReasonNotSupported, "Issuers of type %s are not supported yet and sign nothing: use spec.ca or spec.selfSigned, "+
			"or an external issuer", t), true
	}
}

// checkCA judges the CA in a Secret, which is nil if it does not exist. name is
// what messages call it.
func checkCA(name string, secret *corev1.Secret, now time.Time) verdict {
	authority, err := issuer.OpenCA(name, secret)
	if err != nil && !readable(secret) {
		return unready(ReasonGetKeyPair, "Error getting keypair for CA issuer: %s", problemOf(err))
	}
	if err != nil {
		return unready(ReasonInvalidKeyPair, "Error verifying keypair for CA issuer: %s", problemOf(err))
	}
	return checkTime(name, authority.Validity(), now)
}

// problemOf is what requests are told that wait for the CA.
func problemOf(err error) string {
	if problem := new(signer.PendingError); errors.As(err, &problem) {
		return problem.Message
	}
	return err.Error()
}

// readable tells whether there are a key and certificates, whatever they are.
func readable(secret *corev1.Secret) bool {
	if secret == nil {
		return false
	}
	_, noKey := pki.ParsePrivateKey(secret.Data[corev1.TLSPrivateKeyKey])
	_, noCertificates := pki.ParseFirst(secret.Data[corev1.TLSCertKey])
	return noKey == nil && noCertificates == nil
}

func checkTime(name string, lives pki.Validity, now time.Time) verdict {
	switch {
	case now.Before(lives.NotBefore):
		v := unready(ReasonInvalidKeyPair, "The CA in secret %s is valid from %s only", name, lives.NotBefore.UTC().Format(time.RFC3339))
		v.again = lives.NotBefore
		return v
	case now.After(lives.NotAfter):
		return unready(ReasonInvalidKeyPair, "The CA in secret %s has expired on %s: renew it", name, lives.NotAfter.UTC().Format(time.RFC3339))
	}
	return verdict{ready: true, reason: ReasonVerified, message: "Signing CA verified", again: lives.NotAfter}
}
