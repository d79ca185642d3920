package issue

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	certissuing "github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
	"github.com/certplane/certplane/internal/policy/request"
)

// issue acts on the answer to the request for the next certificate.
func (t *pass) issue(ctx context.Context) (ends bool, err error) {
	if err := t.readAnswers(ctx); err != nil {
		return false, err
	}
	key := t.nextKey()
	outcome := issuance.Issue(t.Situation, key, t.now)
	switch outcome.Step {
	case issuance.Store:
		return true, t.store(ctx, outcome.Request, key)
	case issuance.StoreTemporary:
		return true, t.storeTemporary(ctx, outcome.Request, key)
	case issuance.Fail:
		return true, t.fail(ctx, issuing, outcome.Why)
	}
	if isIssuing(t.Certificate) {
		log.FromContext(ctx).V(1).Info("Issuing", "waits", outcome.Why.Message)
		t.requeueBy(t.now.Add(lookEvery))
		t.requeueBy(outcome.Again)
	}
	if outcome.Report {
		t.setStatus(issuing, func(crt *cmv1.Certificate) { issuance.SetWaiting(crt, outcome.Why.Message) })
	}
	return false, nil
}

// store writes a certificate into its Secret, and then writes the status. If
// the second write fails, both are repeated. What is no longer needed then is
// deleted last.
func (t *pass) store(ctx context.Context, cr *cmv1.CertificateRequest, key crypto.Signer) error {
	content, err := secret.Issued(t.Certificate, cr, key)
	if err != nil {
		return t.fail(ctx, issuing, issuance.Finding{Reason: issuance.ReasonInvalidCertificate, Message: fmt.Sprintf("Cannot encode the private key: %v", err)})
	}
	if written, err := t.apply(ctx, content); !written {
		return err
	}
	t.setStatus(issuing, issuance.SetIssued)
	t.setReadiness(issuing)
	t.tellNormal(issuing, issuance.Finding{Reason: issuance.EventIssuing, Message: issuance.MessageIssued})
	if err := t.flush(ctx); err != nil {
		return err
	}
	if _, err = t.keepKey(ctx); err != nil { // it is in the Secret by now
		return err
	}
	if _, err = t.deleteSurplus(ctx); err != nil {
		return err
	}
	next := t.Settings.backoff().Decide(t.Situation, t.now)
	t.requeueBy(next.Again)
	t.unsettled = !next.Why.None()
	return nil
}

// temporary makes a certificate to serve until the issuer has answered.
func temporary(ctx context.Context, cr *cmv1.CertificateRequest, now time.Time) ([]byte, error) {
	req, err := certissuing.RequestOf(request.FromCertificateRequest(cr))
	if err != nil {
		return nil, err
	}
	return req.Temporary(ctx, secret.TemporaryIssuer, now)
}

func (t *pass) storeTemporary(ctx context.Context, cr *cmv1.CertificateRequest, key crypto.Signer) error {
	chain, err := temporary(ctx, cr, t.now)
	if err != nil {
		// If the request is invalid, the issuer reports it.
		log.FromContext(ctx).Error(err, "Cannot make a temporary certificate")
		t.requeueBy(t.now.Add(lookEvery))
		return nil
	}
	content, err := secret.Interim(t.Certificate, chain, key)
	if err != nil {
		return err
	}
	if err := t.flush(ctx); err != nil { // with the key
		return err
	}
	t.unsettled = true
	written, err := t.apply(ctx, content)
	if written {
		t.tellNormal(issuing, issuance.Finding{Reason: issuance.EventIssuing, Message: issuance.MessageTemporary})
	}
	t.requeueBy(t.now.Add(lookEvery))
	return err
}

const (
	// reasonNoPassword means that a keystore cannot be written.
	reasonNoPassword = "KeystorePasswordSecretNotFound"
	// reasonNotWritten means that the Secret cannot be written.
	reasonNotWritten = "SecretNotWritten"
)

// noPassword is the error for a missing password of a keystore.
type noPassword struct{ secret, key string }

// Error implements error.
func (e noPassword) Error() string {
	return fmt.Sprintf("Secret %q has no password under the key %q: it is needed for a keystore", e.secret, e.key)
}

// apply writes the Certificate's Secret; t.Secret is then what was stored.
// While a password for a keystore is missing, apply writes nothing and returns
// no error.
func (t *pass) apply(ctx context.Context, content secret.Content) (written bool, err error) {
	options := secret.Options{Owned: t.Settings.EnableCertificateOwnerRef, Now: t.now}
	if t.Secret != nil {
		options.Type = t.Secret.Type
	}
	var missing noPassword
	if options.Passwords, err = t.passwords(ctx); errors.As(err, &missing) {
		t.requeueBy(t.now.Add(lookEvery))
		t.reportBlocked(issuing, issuance.Finding{Reason: reasonNoPassword, Message: missing.Error()})
		return false, nil
	}
	if err != nil {
		return false, err
	}
	wanted, err := content.Apply(options)
	if err != nil {
		t.requeueBy(t.now.Add(lookEvery))
		t.reportBlocked(issuing, issuance.Finding{Reason: reasonNotWritten, Message: fmt.Sprintf("Cannot make Secret %q: %v", t.Certificate.Spec.SecretName, err)})
		return false, nil
	}
	if err := t.unchanged(ctx); err != nil {
		return false, err
	}
	if err := t.Client.Apply(ctx, wanted, client.ForceOwnership, client.FieldOwner(issuing)); err != nil {
		return false, t.refused(issuing, reasonNotWritten, fmt.Errorf("writing Secret %q: %w", t.Certificate.Spec.SecretName, err))
	}
	t.Secret = stored(wanted)
	t.saw(ptr.Deref(wanted.ResourceVersion, ""))
	return true, nil
}

// stored returns the API's answer to an apply, as far as the rest of a pass
// needs it. This saves reading a Secret that was just written.
func stored(answer *applycorev1.SecretApplyConfiguration) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: *answer.Namespace, Name: *answer.Name, Labels: answer.Labels, Annotations: answer.Annotations,
		},
		Type: *answer.Type,
		Data: answer.Data,
	}
}

// passwords returns the passwords of the requested keystores. With an error, it
// returns those that can be read.
func (t *pass) passwords(ctx context.Context) (passwords secret.Passwords, err error) {
	var errJKS, errPKCS12 error
	jks, pkcs12 := secret.PasswordRefs(&t.Certificate.Spec)
	passwords.JKS, errJKS = t.password(ctx, jks)
	passwords.PKCS12, errPKCS12 = t.password(ctx, pkcs12)
	return passwords, cmp.Or(errJKS, errPKCS12)
}

func (t *pass) password(ctx context.Context, ref *secret.PasswordRef) (string, error) {
	switch {
	case ref == nil:
		return "", nil
	case ref.Secret == "":
		return ref.Value, nil
	}
	found, err := t.secret(ctx, t.Certificate.Namespace, ref.Secret)
	if err != nil {
		return "", err
	}
	if found == nil || len(found.Data[ref.Key]) == 0 {
		return "", noPassword{ref.Secret, ref.Key}
	}
	return string(found.Data[ref.Key]), nil
}
