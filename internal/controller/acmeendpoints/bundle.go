package acmeendpoints

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/rights"
)

// BundleName returns the name of the ClusterTrustBundle of an endpoint. It begins with
// the name of its signer (KEP-3257).
func BundleName(endpoint string) string { return "certplane.dev:acme:" + endpoint }

// keepBundle writes the ClusterTrustBundle of an endpoint and returns its name, or an empty
// string without a bundle. The bundle contains the roots of the server, in PEM, and the
// published roots of the signers of the endpoint's profiles. Roots of issuers are not
// known.
func (r *reconciler) keepBundle(ctx context.Context, e *v1alpha1.AcmeEndpoint, ofServer []byte, published signerRoots) (string, error) {
	roots, err := pki.ParseBundle(ofServer)
	if err != nil || len(roots) == 0 {
		return "", nil // they are not known
	}
	for _, p := range e.Spec.Profiles {
		if p.Signer != nil {
			roots = append(roots, published[p.Signer.Name]...)
		}
	}
	content, warning, err := rollover.Content(roots)
	if warning != nil || err != nil {
		log.FromContext(ctx).V(1).Info("Some roots cannot be published", "warning", warning, "err", err)
	}
	if err != nil {
		return "", nil // such as a certificate that is its own root, and no CA
	}
	wanted := &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{
			Name: BundleName(e.Name), Labels: map[string]string{v1alpha1.AcmeEndpointLabel: e.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AcmeEndpoint", Name: e.Name, UID: e.UID, Controller: new(true)}},
		},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: rights.ACMETrust, TrustBundle: content},
	}
	return r.putBundle(ctx, wanted)
}

// putBundle creates or updates a bundle, unless the cluster lacks the kind.
func (r *reconciler) putBundle(ctx context.Context, wanted *certificatesv1.ClusterTrustBundle) (string, error) {
	stored := &certificatesv1.ClusterTrustBundle{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), stored)
	switch {
	case served.IsMissing(err):
		return "", nil
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, wanted, client.FieldOwner(Name))
	case err != nil:
	case stored.Spec != wanted.Spec || !metav1.IsControlledBy(stored, &v1alpha1.AcmeEndpoint{ObjectMeta: metav1.ObjectMeta{UID: wanted.OwnerReferences[0].UID}}):
		stored.Spec, stored.OwnerReferences = wanted.Spec, wanted.OwnerReferences
		err = r.Client.Update(ctx, stored, client.FieldOwner(Name))
	}
	if err != nil {
		return "", fmt.Errorf("writing the ClusterTrustBundle %s: %w", wanted.Name, err)
	}
	return wanted.Name, nil
}
