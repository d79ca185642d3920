package certplane

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// TrustBundleWebhookName is part of refusals that come from a webhook.
const TrustBundleWebhookName = "trust." + v1alpha1.GroupName

// TrustBundles is the resource of TrustBundles.
var TrustBundles = v1alpha1.GroupVersion.WithResource("trustbundles")

// CheckTrustBundle refuses a new spec with a ClusterTrustBundle as target unless its author may create
// and update that: the controller writes it with its own rights.
func CheckTrustBundle(ctx context.Context, authorize Authorize, w Write) *apierrors.StatusError {
	name := w.text(w.Object, "spec", "target", "clusterTrustBundle", "name")
	if name == "" || !writes(w.Operation) || w.Subresource != "" || w.sameSpec() {
		return nil
	}
	for _, verb := range []string{"create", "update"} {
		right := authorizationv1.ResourceAttributes{Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: "clustertrustbundles", Name: name}
		if refusal := authorize.require(ctx, w, right, "spec.target.clusterTrustBundle"); refusal != nil {
			return refusal
		}
	}
	return nil
}
