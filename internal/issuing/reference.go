package issuing

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
)

// ReasonDeniedReference is the reason if the requester may not refer to the
// Issuer.
const ReasonDeniedReference = "DeniedReference"

// DeniedReference returns the verdict on a request whose requester may not
// refer to its Issuer.
func DeniedReference(username string, who certmanager.Signer) error {
	return signer.Permanent(ReasonDeniedReference, fmt.Errorf(
		"user %q may not refer to the Issuer %q in namespace %q: grant the verb reference on signers.%s named %q there",
		username, who.Name, who.Namespace, certmanager.Group, who.Name))
}

// MayRefer reports whether the API's authorization grants the requester at least one of the
// rights. Each of them permits it to refer to an issuer. The client needs create on
// subjectaccessreviews.
func MayRefer(ctx context.Context, api client.Client, by request.Requester, rights ...authorizationv1.ResourceAttributes) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range by.Extra {
		extra[key] = values
	}
	for _, right := range rights {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: by.Username, UID: by.UID, Groups: by.Groups, Extra: extra, ResourceAttributes: &right,
		}}
		if err := api.Create(ctx, review); err != nil || review.Status.Allowed {
			return err == nil, err
		}
	}
	return false, nil
}
