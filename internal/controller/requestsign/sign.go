package requestsign

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// issuers sign with what is in Secrets.
type issuers struct {
	cache            client.Reader
	client           client.Reader // past caches
	clusterResources string
	rules            issuer.Rules
	issuing          pki.Issuing
	opened           *opened
}

// find returns an issuer; nil if there is none.
func (i issuers) find(ctx context.Context, who certmanager.Signer) (cmv1.GenericIssuer, error) {
	found, err := certmanager.NewIssuer(who.Kind)
	if err != nil {
		return nil, err
	}
	err = i.cache.Get(ctx, types.NamespacedName{Namespace: who.Namespace, Name: who.Name}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s %s: %w", who.Kind, who.Name, err)
	}
	return found, nil
}

// keyOf says where the private key of a request is that a SelfSigned issuer
// signs.
type keyOf struct {
	annotation string
	secret     types.NamespacedName
}

// secretOf is the Secret that an issuer signs with.
func (i issuers) secretOf(found cmv1.GenericIssuer, key keyOf) types.NamespacedName {
	if ca := found.GetSpec().CA; ca != nil {
		return types.NamespacedName{Namespace: certmanager.SecretNamespace(found, i.clusterResources), Name: ca.SecretName}
	}
	return key.secret
}

// sign answers a request. Its errors are verdicts.
func (i issuers) sign(ctx context.Context, found cmv1.GenericIssuer, req issuer.Request, key keyOf, now time.Time) (*signer.Issued, error) {
	if ca := found.GetSpec().CA; ca != nil {
		authority, err := i.open(ctx, i.secretOf(found, key))
		if err != nil {
			return nil, err
		}
		return i.rules.SignCA(ctx, req, ca, authority, now, i.issuing)
	}
	from := issuer.KeySecret{Annotation: key.annotation, Namespace: key.secret.Namespace, Name: key.secret.Name}
	if from.Name != "" {
		secret, err := i.read(ctx, key.secret, issuer.ReasonErrorGettingSecret)
		if err != nil {
			return nil, err
		}
		from.Secret = secret
	}
	return issuer.SignSelf(ctx, req, found.GetSpec().SelfSigned, from, now, i.issuing)
}

// read returns a Secret; nil if it does not exist.
func (i issuers) read(ctx context.Context, name types.NamespacedName, reason string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := i.client.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		message := fmt.Sprintf("Failed to get secret %s; trying again", name)
		return nil, &signer.PendingError{Reason: reason, Message: message, Err: fmt.Errorf("reading secret %s: %w", name, err)}
	}
	return secret, nil
}

// open returns the CA in a Secret, which is read each time: a request that
// comes after a change of the CA is signed with the new one.
func (i issuers) open(ctx context.Context, name types.NamespacedName) (*pki.Authority, error) {
	secret, err := i.read(ctx, name, issuer.ReasonSecretGetError)
	if err != nil {
		return nil, err
	}
	return i.opened.get(name, secret)
}
