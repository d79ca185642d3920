package policies

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// authorities finds the CAs of signers. It is safe for concurrent use.
type authorities struct {
	// api has the trust bundles, in which signers publish their roots.
	api client.Reader
	// issuers maps each certmanager.Signer of cert-manager.io whose CA a controller of
	// this process has to that CA.
	issuers sync.Map
}

// of returns the CAs of the signer of a request; none if they are not known: the signer
// publishes no roots, or the issuer's CA is in another process.
func (a *authorities) of(ctx context.Context, r *request.Request) ([]*x509.Certificate, error) {
	if r.Issuer == nil {
		roots, err := BundledRoots(ctx, a.api, r.SignerName)
		if apierrors.IsForbidden(err) { // older manifests do not grant it
			klog.FromContext(ctx).Info("People have to approve what renews certificates, as the roots of signers may not be read", "signer", r.SignerName, "err", err.Error())
			return nil, nil
		}
		return roots, err
	}
	if ca, known := a.issuers.Load(r.Issuer.Signer); known && r.Issuer.Group == certmanager.Group {
		return []*x509.Certificate{ca.(*x509.Certificate)}, nil
	}
	return nil, nil
}

// KnowCA notes the CA with which an issuer of cert-manager.io signs here; nil if it has
// no usable CA. Without Policies, it does nothing.
func (p *Policies) KnowCA(issuer certmanager.Signer, ca *x509.Certificate) {
	switch {
	case p == nil:
	case ca == nil:
		p.authorities.issuers.Delete(issuer)
	default:
		p.authorities.issuers.Store(issuer, ca)
	}
}

// BundledRoots returns the roots in the trust bundles of a signer. Only users with the
// right to attest for the signer can write these. It returns none if the API has no
// trust bundles.
func BundledRoots(ctx context.Context, api client.Reader, signerName string) ([]*x509.Certificate, error) {
	for _, list := range []client.ObjectList{
		&certificatesv1.ClusterTrustBundleList{}, &certificatesv1beta1.ClusterTrustBundleList{}, &certificatesv1alpha1.ClusterTrustBundleList{},
	} {
		err := api.List(ctx, list, client.MatchingFields{"spec.signerName": signerName})
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err): // another version may be served
			continue
		case err != nil:
			return nil, fmt.Errorf("listing the trust bundles of %s: %w", signerName, err)
		}
		return rootsIn(list, signerName), nil
	}
	return nil, nil
}

// rootsIn returns the roots in the bundles of one signer.
func rootsIn(list client.ObjectList, signerName string) []*x509.Certificate {
	var all []*x509.Certificate
	add := func(of, bundle string) {
		// Bundles that cannot be read are skipped.
		if roots, err := pki.ParseCertificates([]byte(bundle)); err == nil && of == signerName {
			all = append(all, roots...)
		}
	}
	switch list := list.(type) {
	case *certificatesv1.ClusterTrustBundleList:
		for i := range list.Items {
			add(list.Items[i].Spec.SignerName, list.Items[i].Spec.TrustBundle)
		}
	case *certificatesv1beta1.ClusterTrustBundleList:
		for i := range list.Items {
			add(list.Items[i].Spec.SignerName, list.Items[i].Spec.TrustBundle)
		}
	case *certificatesv1alpha1.ClusterTrustBundleList:
		for i := range list.Items {
			add(list.Items[i].Spec.SignerName, list.Items[i].Spec.TrustBundle)
		}
	}
	return all
}
