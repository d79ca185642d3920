package explain

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Approver checks which requests the caller may approve and deny. It makes each check at
// the server once, and is not safe for concurrent use.
type Approver struct {
	api     Reader
	answers map[authorizationv1.ResourceAttributes]Result
}

// NewApprover returns an Approver for the caller of an API.
func NewApprover(api Reader) *Approver {
	return &Approver{api, map[authorizationv1.ResourceAttributes]Result{}}
}

// may first checks the permission for all requests in the namespace, which most roles
// grant, and then for the one request.
func (a *Approver) may(ctx context.Context, update authorizationv1.ResourceAttributes, approve []authorizationv1.ResourceAttributes) (Result, error) {
	check := a.remembered(ctx)
	if answer, err := check.any(approve); err != nil || answer != Yes {
		return answer, err
	}
	all := update
	all.Name = ""
	return check.any([]authorizationv1.ResourceAttributes{all, update})
}

// remembered returns a check of the caller's access that caches answers.
func (a *Approver) remembered(ctx context.Context) accessCheck {
	ask := ofCaller(ctx, a.api)
	return func(access authorizationv1.ResourceAttributes) (Result, error) {
		if answer, ok := a.answers[access]; ok {
			return answer, nil
		}
		answer, err := ask(access)
		if err == nil {
			a.answers[access] = answer
		}
		return answer, err
	}
}

// updateOfApproval returns the attributes of the update with which a
// CertificateSigningRequest is approved or denied.
func updateOfApproval(csr *certificatesv1.CertificateSigningRequest) authorizationv1.ResourceAttributes {
	update := access("update", certificatesv1.GroupName, "certificatesigningrequests", csr)
	update.Subresource = "approval"
	return update
}

// updateOfStatus returns the attributes of the update with which a
// CertificateRequest is approved or denied.
func updateOfStatus(cr *cmv1.CertificateRequest) authorizationv1.ResourceAttributes {
	update := access("update", certmanager.Group, "certificaterequests", cr)
	update.Subresource = "status"
	return update
}
