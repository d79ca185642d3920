package explain

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// requestKind holds the explanation of one kind of request.
type requestKind struct {
	progress func(client.Object) progress
	// may and objection are nil if requests of the kind need no approval.
	may func(context.Context, *Approver, client.Object) (Result, error)
	// objection returns the reason why the signer would refuse the request.
	objection func(context.Context, *Verdicts, client.Object, request.Request) (string, error)
}

var requestKinds = map[v1alpha1.RequestKind]requestKind{
	v1alpha1.CertificateSigningRequests: {
		progress: func(o client.Object) progress { return (&facts{csr: o.(*csr)}).progress() },
		may: func(ctx context.Context, a *Approver, o client.Object) (Result, error) {
			return a.may(ctx, updateOfApproval(o.(*csr)), signerAccess("approve", o.(*csr).Spec.SignerName))
		},
		objection: func(ctx context.Context, v *Verdicts, o client.Object, req request.Request) (string, error) {
			return v.objection(ctx, o.(*csr), req)
		},
	},
	v1alpha1.CertificateRequests: {
		progress: func(o client.Object) progress {
			return (&RequestFacts{Request: o.(*cmv1.CertificateRequest)}).progress()
		},
		may: func(ctx context.Context, a *Approver, o client.Object) (Result, error) {
			return a.mayForIssuer(ctx, o.(*cmv1.CertificateRequest))
		},
		objection: func(_ context.Context, _ *Verdicts, o client.Object, _ request.Request) (string, error) {
			return textOf(certmanager.CheckRequest(&o.(*cmv1.CertificateRequest).Spec)), nil
		},
	},
	v1alpha1.PodCertificateRequests: {
		progress: func(o client.Object) progress { return podProgress(o.(*podRequest)) },
	},
}

// requestKindOf returns the kind of an object; empty if it is not a request.
func requestKindOf(object client.Object) requestKind {
	if k := requestkind.Of(object); k != nil {
		return requestKinds[k.Name]
	}
	return requestKind{}
}

// StateOf returns the state of a request of any kind and its reason: the text of the
// condition that set the state, or the signer's report of what it waits for.
func StateOf(object client.Object) (certificates.State, string) {
	var p progress
	if of := requestKindOf(object).progress; of != nil {
		p = of(object)
	}
	if p.open() {
		return p.state, p.delay
	}
	return p.state, p.reason
}

// May reports whether the caller may decide a CertificateSigningRequest or a
// CertificateRequest. Requests of other kinds need no approval: the answer is No.
func (a *Approver) May(ctx context.Context, object client.Object) (Result, error) {
	if may := requestKindOf(object).may; may != nil {
		return may(ctx, a, object)
	}
	return No, nil
}

func (a *Approver) mayForIssuer(ctx context.Context, cr *cmv1.CertificateRequest) (Result, error) {
	resource, err := a.api.Resource(ctx, certmanager.IssuerGroupKind(cr.Spec.IssuerRef))
	if errors.Is(err, certmanager.ErrNoResource) {
		return No, nil // no user may: the permission has no name
	}
	if err != nil {
		return Unknown, fmt.Errorf("looking up the kind of the issuer of %s: %w", client.ObjectKeyFromObject(cr), err)
	}
	names := certmanager.ApprovalNames(cr.Spec.IssuerRef, resource, cr.Namespace)
	return a.may(ctx, updateOfStatus(cr), signersAccess("approve", certmanager.Group, names...))
}
