package crp

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// Facts are the input of a decision in addition to the request. An error of either
// function ends the decision.
type Facts struct {
	// NamespaceLabels returns the labels of the request's Namespace. It is
	// called once, if a policy that can be asked selects by labels.
	NamespaceLabels func() (map[string]string, error)
	// MayUse reports whether the requester may use a policy: whether an
	// AccessReview allows it. It is called for each policy that selects the
	// request.
	MayUse func(policy string) (bool, error)
}

// AccessReview asks whether the requester of cr may use a policy. It is about
// the request's namespace: a Role there is enough.
func AccessReview(cr *cmv1.CertificateRequest, policy string) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(cr.Spec.Extra))
	for key, values := range cr.Spec.Extra {
		extra[key] = values
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: cr.Spec.Username, Groups: cr.Spec.Groups, UID: cr.Spec.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: approverpolicy.GroupName, Resource: approverpolicy.Resource, Name: policy, Namespace: cr.Namespace, Verb: "use",
		},
	}
}

// knownFacts are Facts that read the labels only once.
type knownFacts struct {
	Facts
	read   bool
	labels map[string]string
	err    error
}

func (k *knownFacts) namespaceLabels() (map[string]string, error) {
	if !k.read {
		k.read = true
		k.labels, k.err = k.NamespaceLabels()
	}
	return k.labels, k.err
}
