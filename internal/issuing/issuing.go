// Package issuing says what a type of Issuers is: how its issuers are checked,
// how they sign, and which objects they wait for. Its types are listed in the
// package types below; each is a package beside that.
package issuing

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// Request is what a certificate is made from, of whichever kind of object.
type Request = issuer.Request

// Backend is what stands behind the issuers of one type. The issuers that it is
// asked about are of this type and must not be modified. Safe for concurrent use.
type Backend interface {
	// Check judges an issuer. Its errors go away; it is called again then.
	Check(ctx context.Context, of cmv1.GenericIssuer, now time.Time) (Ready, error)
	// Sign answers a request that is approved. It is called again for a request
	// that has no answer yet, and must then not order a second certificate where
	// that costs something. Its errors are verdicts: *signer.PermanentError, and
	// *signer.PendingError, which is Watched if the change of an object that Needs
	// names ends the wait.
	Sign(ctx context.Context, by cmv1.GenericIssuer, req Request, now time.Time) (*signer.Issued, error)
	// Needs are the objects on which the answer to a request depends, whether or
	// not they exist; of the zero Request, those on which Check depends. It is
	// called often and must be fast; of the request it may read what is in its
	// Outline.
	Needs(of cmv1.GenericIssuer, req Request) []Reference
}

// Type is one type of issuers.
type Type struct {
	// Name is the field of the spec that makes an issuer one of this type.
	Name certmanager.IssuerType
	// Component is, in managed fields and Events, what answers CertificateRequests
	// to its issuers.
	Component string
	// OwnKeys reports that its issuers sign with the keys of the requests, which
	// have to name a Secret.
	OwnKeys bool
	// Watches are objects of the kinds besides Secrets that Needs can name.
	Watches []client.Object
	// New returns what stands behind the issuers.
	New func(Config) Backend
}

// Config is what backends are made of.
type Config struct {
	// Client reads past caches.
	Client client.Reader
	// ClusterResources is the namespace of the Secrets of ClusterIssuers.
	ClusterResources string
	// Rules hold for all issuers with a CA in this process.
	Rules issuer.Rules
	// Issuing is what issuers sign with besides their keys.
	Issuing pki.Issuing
}

// Ready is what the Ready condition of an issuer says.
type Ready struct {
	OK              bool
	Reason, Message string
	// Again is when it changes by itself; zero: never.
	Again time.Time
}

// NotReady returns the verdict that an issuer cannot sign.
func NotReady(reason, format string, args ...any) Ready {
	return Ready{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Reference is the address of an object.
type Reference struct {
	Kind schema.GroupKind
	types.NamespacedName
}

// Secret is the address of a Secret.
func Secret(name types.NamespacedName) Reference {
	return Reference{Kind: schema.GroupKind{Kind: "Secret"}, NamespacedName: name}
}

// ReadSecret returns a Secret; nil if it does not exist. Its error is a verdict
// with this reason.
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
