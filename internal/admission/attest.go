package admission

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	"github.com/certplane/certplane/internal/api/metadata"
)

// attest lets a user write the trust anchors of a signer only if the user may
// attest for it.
type attest struct{ signerCheck }

var _ admission.ValidationInterface = attest{}

func newAttest(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return attest{signerCheck{
		Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		signers: signers{authz},
		verb:    "attest",
		action:  "attest for",
		about:   attestedSigner,
	}}
}

// Validate implements admission.ValidationInterface.
func (p attest) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetOperation() == admission.Delete {
		p.warnOfDeletion(ctx, a)
		return nil
	}
	return p.signerCheck.Validate(ctx, a, o)
}

// attestedSigner returns the signer of the new object: the signer's name never changes.
// Changes of labels need the permission also, because labels decide which clients trust
// the bundle.
func attestedSigner(a admission.Attributes) (signerName string, asks bool, err error) {
	if !isTrustBundle(a) {
		return "", false, nil
	}
	bundle, err := asTrustBundle(a, a.GetObject())
	if err != nil || bundle.Spec.SignerName == "" {
		return "", false, err
	}
	if a.GetOperation() == admission.Update {
		stored, err := asTrustBundle(a, a.GetOldObject())
		if err != nil || metadata.IsCleanup(bundle, stored) {
			return "", false, err
		}
	}
	return bundle.Spec.SignerName, true, nil
}

// warnOfDeletion adds a warning to a deletion: a user who may delete bundles may delete
// the bundles of every signer, and clients rely on that.
func (p attest) warnOfDeletion(ctx context.Context, a admission.Attributes) {
	bundle, ok := a.GetOldObject().(*certificatesv1.ClusterTrustBundle)
	if !ok || !isTrustBundle(a) || bundle.Spec.SignerName == "" {
		return
	}
	if !p.signers.allow(ctx, a.GetUserInfo(), p.verb, bundle.Spec.SignerName) {
		warning.AddWarning(ctx, "", fmt.Sprintf("deleting trust bundle %q of signer %q, for which you may not attest: you cannot create it again",
			bundle.Name, bundle.Spec.SignerName))
	}
}

func isTrustBundle(a admission.Attributes) bool {
	return a.GetResource().GroupResource() == certificatesv1.Resource("clustertrustbundles") && a.GetSubresource() == ""
}

func asTrustBundle(a admission.Attributes, obj runtime.Object) (*certificatesv1.ClusterTrustBundle, error) {
	bundle, ok := obj.(*certificatesv1.ClusterTrustBundle)
	if !ok {
		return nil, admission.NewForbidden(a, fmt.Errorf("expected type ClusterTrustBundle, got: %T", obj))
	}
	return bundle, nil
}
