// Package issuing defines the interface of a type of Issuers: how its issuers are checked,
// how they sign, and which objects they wait for. The package issuertypes lists the types;
// each type has its own package.
package issuing

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
)

// Backend implements the issuers of one type. The issuers in its arguments are
// of this type and must not be modified. A Backend must be safe for concurrent
// use.
type Backend interface {
	// Check returns the readiness of an issuer. Its errors are temporary; after
	// one, it is called again.
	Check(ctx context.Context, of cmv1.GenericIssuer, now time.Time) (Ready, error)
	// Sign answers an approved request. It is called again for a request without an answer,
	// and must then not order a second certificate if certificates cost money or quota. Its
	// errors are verdicts: *signer.PermanentError, and *signer.PendingError, which is
	// Watched if a change of an object from Needs ends the wait.
	Sign(ctx context.Context, by cmv1.GenericIssuer, req Request, now time.Time) (*signer.Issued, error)
	// Needs returns the objects on which the answer to a request depends, whether or not
	// they exist; for the zero Request, those on which Check depends. It is called often
	// and must be fast; it may read only the fields of the request that are in its Outline.
	Needs(of cmv1.GenericIssuer, req Request) []Reference
}

// Revoker is a Backend whose issuers can have their CA revoke certificates.
type Revoker interface {
	// Revoke lets the CA of an issuer revoke a certificate. That the certificate was revoked
	// before is no error. ErrNoCertificate is final; other errors can pass.
	Revoke(ctx context.Context, of cmv1.GenericIssuer, cert Revoked) error
}

// Revoked is a certificate that the CA of an issuer is to revoke.
type Revoked struct {
	Serial *big.Int
	// DER is the certificate; nil if it is not known.
	DER    []byte
	Reason pki.Reason
}

var (
	// ErrNoCertificate means that a CA has to be given the certificate, and it is not known.
	ErrNoCertificate = errors.New("the CA must be given the certificate, which is not stored any more")
	// ErrCannotRevoke means that the CA of an issuer cannot be told of revocations.
	ErrCannotRevoke = errors.New("issuers of this type cannot have their CA revoke certificates")
)

// Type is one type of issuers.
type Type struct {
	// Name is the field of the spec that selects this type.
	Name certmanager.IssuerType
	// Component is the name, in managed fields and Events, of the controller
	// that answers CertificateRequests to its issuers.
	Component string
	// OwnKeys is set if its issuers sign with the keys of the requests, which must
	// reference a Secret.
	OwnKeys bool
	// InProcess is set if the CA of its issuers is in this process: they also sign requests
	// within the calls that create them. Other issuers sign only stored requests.
	InProcess bool
	// Watches are the kinds of objects, other than Secrets, that Needs can return.
	Watches []Watch
}

// Config contains the dependencies of backends and of the controllers that call them.
type Config struct {
	// Client is the controller's own identity. It must read past caches. It needs get on
	// secrets, and the rights that the controller and the types require.
	Client client.Client
	// Secrets notifies of changes.
	Secrets *changewatch.Watcher
	// Others, if not nil, notifies of changes of Needs that are not API objects, such as a
	// server that answers again. changed must return quickly.
	Others func(changed func(Reference)) (cancel func())
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// ClusterResources is the namespace of the Secrets of ClusterIssuers.
	ClusterResources string
	// Rules apply to all issuers with a CA in this process.
	Rules Rules
	// Issuing configures signing, apart from the issuers' keys.
	Issuing pki.Issuing
}

// Rules are an operator's settings for all CA issuers.
type Rules struct {
	// Honoured returns the CAs that the API server trusts for client certificates, if
	// known.
	Honoured signer.Honoured
	// OutliveCA gives certificates their full requested lifetime, even beyond
	// the end of their CA.
	OutliveCA bool
}

// Ready is the content of the Ready condition of an issuer.
type Ready struct {
	OK              bool
	Reason, Message string
	// Again is when the content changes with time; zero means never.
	Again time.Time
	// Uninitialized is set if an object that the issuer needs is missing or cannot be read.
	// Clients of cert-manager.io expect a separate Event about that.
	Uninitialized bool
	// CA is the CA with which the issuer signs; nil if its key is not in this process.
	CA *pki.Authority
	// Retry, if not nil, is the reason to check the issuer again after a back-off.
	Retry error
	// EventReason and EventMessage, if not empty, replace the condition's reason and
	// message in the Event, where clients expect different texts.
	EventReason, EventMessage string
	// Notice, if not empty, is the text of a further Event for users.
	Notice string
	// Warnings are further Events about the spec of an issuer that can sign nevertheless.
	// They are due when the condition or the spec has changed.
	Warnings []Warning
	// ACME, if not nil, is the new status.acme.
	ACME *acmev1.ACMEIssuerStatus
}

// Warning is an Event of type Warning.
type Warning struct{ Reason, Message string }

// NotReady returns a Ready for an issuer that cannot sign.
func NotReady(reason, format string, args ...any) Ready {
	return Ready{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// NotInitialized returns a Ready for an issuer whose required objects are missing or cannot
// be read.
func NotInitialized(reason, format string, args ...any) Ready {
	r := NotReady(reason, format, args...)
	r.Uninitialized = true
	return r
}

// Reference is the address of an object.
type Reference struct {
	Kind schema.GroupKind
	types.NamespacedName
}

// Secret returns the address of a Secret.
func Secret(name types.NamespacedName) Reference {
	return Reference{Kind: schema.GroupKind{Kind: "Secret"}, NamespacedName: name}
}

// ReadSecret returns a Secret, or nil if it does not exist. Its error is a verdict with the
// given reason.
func ReadSecret(ctx context.Context, c client.Reader, name types.NamespacedName, reason string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		message := fmt.Sprintf("Failed to get secret %s; trying again", name)
		return nil, &signer.PendingError{Reason: reason, Message: message, Err: fmt.Errorf("reading secret %s: %w", name, err)}
	}
	return secret, nil
}
