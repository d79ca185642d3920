package certmanager

import (
	"context"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// records lets only users who may write the status of Challenges record where an answer
// was presented, because the answer is removed from there with the credentials of the
// issuer. All users who may write a Challenge may remove the record.
type records struct{ authorize Authorize }

func (c records) check(ctx context.Context, r Request, o objects) error {
	challenge, ok := o.new.(*acmev1.Challenge)
	if !ok {
		return nil
	}
	said, before := challenge.Annotations[api.PresentedAnnotation], ""
	if old, ok := o.old.(*acmev1.Challenge); ok {
		before = old.Annotations[api.PresentedAnnotation]
	}
	if said == "" || said == before {
		return nil
	}
	allowed, err := c.authorize(ctx, r.User, authorizationv1.ResourceAttributes{
		Namespace: r.Namespace, Verb: "update", Group: api.ACMEGroup, Version: "*", Resource: "challenges", Subresource: "status", Name: challenge.Name,
	})
	if err != nil {
		return fmt.Errorf("asking whether user %q may update the status of Challenges: %w", r.User.Username, err)
	}
	if allowed {
		return nil
	}
	return field.Forbidden(field.NewPath("metadata", "annotations").Key(api.PresentedAnnotation),
		"only users who may update the status of Challenges may set it, because what it names is removed at the end; send the Challenge without it, or with its old value")
}
