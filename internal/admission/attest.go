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

// attest lets only those say what the trust anchors of a signer are who may
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

// attestedSigner is that of the new object: the name of a signer never
// changes. Edits of labels ask too: they choose who trusts the bundle.
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

// warnOfDeletion: whoever may delete bundles may delete those of every signer,
// and clients rely on that.
func (p attest) warnOfDeletion(ctx context.Context, a admission.Attributes) {
	bundle, ok := a.GetOldObject().(*certificatesv1.ClusterTrustBundle)
	if !ok || !isTrustBundle(a) || bundle.Spec.SignerName == "" {
		return
	}
	if !p.signers.allow(ctx, a.GetUserInfo(), p.verb, bundle.Spec.SignerName) {
		warning.AddWarning(ctx, "", fmt.Sprintf("deleting trust bundle %q of signer %q, for which you may not attest: you cannot bring it back",
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
