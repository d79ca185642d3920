// Package selfsigned implements the issuers that sign with the keys of the
// requests.
package selfsigned

import (
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
)

// Type is the type of issuers with spec.selfSigned.
var Type = issuing.Type{
	Name:      certmanager.TypeSelfSigned,
	Component: "cert-manager-certificaterequests-issuer-selfsigned",
	OwnKeys:   true,
	InProcess: true,
}

// New returns the backend of the issuers.
func New(cfg issuing.Config) issuing.Backend { return backend{cfg} }

// ReasonReady is the reason of the Ready condition, which is always true: such an issuer
// has no dependencies.
const ReasonReady = "IsReady"

type backend struct{ issuing.Config }

func (backend) Check(context.Context, cmv1.GenericIssuer, time.Time) (issuing.Ready, error) {
	return issuing.Ready{OK: true, Reason: ReasonReady}, nil
}

// keyOf returns where the private key of a request is. For a
// CertificateSigningRequest, which has no namespace, it is in the namespace of
// the issuer's Secrets.
func (b backend) keyOf(by cmv1.GenericIssuer, req issuing.Request) KeySecret {
	from := KeySecret{Annotation: request.AnnotationKey, Namespace: certmanager.SecretNamespace(by, b.ClusterResources)}
	if req.Kind == request.CertificateRequests {
		from = KeySecret{Annotation: cmv1.CertificateRequestPrivateKeyAnnotationKey, Namespace: req.Namespace}
	}
	from.Name = req.ObjectAnnotations[from.Annotation]
	return from
}

// Needs returns the Secret with the key of a request.
func (b backend) Needs(of cmv1.GenericIssuer, req issuing.Request) []issuing.Reference {
	key := b.keyOf(of, req)
	if key.Name == "" {
		return nil
	}
	return []issuing.Reference{issuing.Secret(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})}
}

func (b backend) Sign(ctx context.Context, by cmv1.GenericIssuer, req issuing.Request, now time.Time) (*signer.Issued, error) {
	from := b.keyOf(by, req)
	if from.Name != "" {
		var err error
		name := types.NamespacedName{Namespace: from.Namespace, Name: from.Name}
		if from.Secret, err = issuing.ReadSecret(ctx, b.Client, name, ReasonErrorGettingSecret); err != nil {
			return nil, err
		}
	}
	return Sign(ctx, b.Issuing, req, by.GetSpec().SelfSigned, from, now)
}
