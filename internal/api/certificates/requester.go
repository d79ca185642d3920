package certificates

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
)

// AccessOfRequester returns the attributes for asking whether the requester has
// a right.
func AccessOfRequester(c *certificatesv1.CertificateSigningRequest, right *authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(c.Spec.Extra))
	for key, values := range c.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: c.Spec.Username, UID: c.Spec.UID, Groups: c.Spec.Groups, Extra: extra, ResourceAttributes: right,
	}
}
