// Package ca implements the issuers that have a CA in a Secret.
package ca

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

// Type is the type of issuers with spec.ca.
var Type = issuing.Type{
	Name:      certmanager.TypeCA,
	Component: "cert-manager-certificaterequests-issuer-ca",
	InProcess: true,
}

// New returns the backend of the issuers.
func New(cfg issuing.Config) issuing.Backend { return &backend{cfg, newOpened()} }

// The reasons of the Ready condition.
const (
	// ReasonVerified: the issuer has its CA.
	ReasonVerified = "KeyPairVerified"
	// ReasonGetKeyPair: the CA does not exist or cannot be parsed.
	ReasonGetKeyPair = "ErrGetKeyPair"
	// ReasonInvalidKeyPair: the key pair is not a valid CA, or not at this
	// time.
	ReasonInvalidKeyPair = "ErrInvalidKeyPair"
)

type backend struct {
	issuing.Config
	opened *opened
}

func (b *backend) secretOf(of cmv1.GenericIssuer) types.NamespacedName {
	return types.NamespacedName{Namespace: certmanager.SecretNamespace(of, b.ClusterResources), Name: of.GetSpec().CA.SecretName}
}

// Needs returns the Secret with the CA, for any request.
func (b *backend) Needs(of cmv1.GenericIssuer, _ issuing.Request) []issuing.Reference {
	return []issuing.Reference{issuing.Secret(b.secretOf(of))}
}

// Check reads the Secret each time. Its errors are API errors.
func (b *backend) Check(ctx context.Context, of cmv1.GenericIssuer, now time.Time) (issuing.Ready, error) {
	name := b.secretOf(of)
	if problems := validation.IsDNS1123Subdomain(name.Name); len(problems) > 0 {
		return issuing.NotInitialized(ReasonGetKeyPair, "Error getting keypair for CA issuer: spec.ca.secretName: %q is not a valid name of a Secret: %s", name.Name, problems[0]), nil
	}
	secret := &corev1.Secret{}
	err := b.Client.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return check(name.String(), nil, now), nil
	case err != nil:
		return issuing.Ready{}, fmt.Errorf("reading secret %s: %w", name, err)
	}
	return check(name.String(), secret, now), nil
}

// check returns the readiness for the CA in a Secret, which is nil if it does
// not exist. name is the name of the Secret in messages.
func check(name string, secret *corev1.Secret, now time.Time) issuing.Ready {
	authority, err := Open(name, secret)
	if err != nil && !readable(secret) {
		return issuing.NotInitialized(ReasonGetKeyPair, "Error getting keypair for CA issuer: %s", problemOf(err))
	}
	if err != nil {
		return issuing.NotReady(ReasonInvalidKeyPair, "Error verifying keypair for CA issuer: %s", problemOf(err))
	}
	ready := checkTime(name, authority.Validity(), now)
	if ready.OK {
		ready.CA = authority
	}
	return ready
}

// problemOf returns the message for requests that wait for the CA.
func problemOf(err error) string {
	if problem := new(signer.PendingError); errors.As(err, &problem) {
		return problem.Message
	}
	return err.Error()
}

// readable reports whether the Secret has a key and certificates that can be
// parsed.
func readable(secret *corev1.Secret) bool {
	if secret == nil {
		return false
	}
	_, noKey := pki.ParsePrivateKey(secret.Data[corev1.TLSPrivateKeyKey])
	_, noCertificates := pki.ParseFirst(secret.Data[corev1.TLSCertKey])
	return noKey == nil && noCertificates == nil
}

func checkTime(name string, lives pki.Validity, now time.Time) issuing.Ready {
	switch {
	case now.Before(lives.NotBefore):
		r := issuing.NotReady(ReasonInvalidKeyPair, "The CA in secret %s is valid from %s only", name, lives.NotBefore.UTC().Format(time.RFC3339))
		r.Again = lives.NotBefore
		return r
	case now.After(lives.NotAfter):
		return issuing.NotReady(ReasonInvalidKeyPair, "The CA in secret %s has expired on %s: renew it", name, lives.NotAfter.UTC().Format(time.RFC3339))
	}
	return issuing.Ready{OK: true, Reason: ReasonVerified, Message: "Signing CA verified", Again: lives.NotAfter}
}

// Sign reads the Secret each time: a request after a change of the CA is signed
// with the new one.
func (b *backend) Sign(ctx context.Context, by cmv1.GenericIssuer, req issuing.Request, now time.Time) (*signer.Issued, error) {
	name := b.secretOf(by)
	secret, err := issuing.ReadSecret(ctx, b.Client, name, ReasonSecretGetError)
	if err != nil {
		return nil, err
	}
	authority, err := b.opened.get(name, secret)
	if err != nil {
		return nil, err
	}
	return Sign(ctx, b.Config, req, by.GetSpec().CA, authority, now)
}
