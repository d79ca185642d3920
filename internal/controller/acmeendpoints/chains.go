package acmeendpoints

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// signerRoots are the certificates of CAs that signers publish in their
// ClusterTrustBundles. Signers whose bundles cannot be read are absent.
type signerRoots map[string][]*x509.Certificate

// publishedBy returns the roots that the signers of an endpoint's profiles publish.
func (r *reconciler) publishedBy(ctx context.Context, e *v1alpha1.AcmeEndpointSpec) signerRoots {
	all := signerRoots{}
	for _, p := range e.Profiles {
		if p.Signer == nil || all[p.Signer.Name] != nil {
			continue
		}
		roots, err := policies.BundledRoots(ctx, r.Client, p.Signer.Name)
		if err != nil {
			log.FromContext(ctx).V(1).Info("Cannot read the roots of a signer", "signer", p.Signer.Name, "err", err)
			continue
		}
		all[p.Signer.Name] = append([]*x509.Certificate{}, roots...)
	}
	return all
}

// since returns the roots of the signers of an endpoint with the times of their
// publication. It keeps the previous roots, was, of signers that cannot be read.
func (published signerRoots) since(e *v1alpha1.AcmeEndpointSpec, was []v1alpha1.AcmePublishedRoot, now time.Time) []v1alpha1.AcmePublishedRoot {
	var roots []v1alpha1.AcmePublishedRoot
	done := sets.New[string]()
	for _, p := range e.Profiles {
		if p.Signer == nil || done.Has(p.Signer.Name) {
			continue
		}
		done.Insert(p.Signer.Name)
		if current, isRead := published[p.Signer.Name]; isRead {
			roots = acmeorder.PublishRoots(roots, was, p.Signer.Name, current, now)
			continue
		}
		for _, root := range was {
			if root.SignerName == p.Signer.Name {
				roots = append(roots, root)
			}
		}
	}
	return roots
}

// chainsOf returns the condition that reports whether the chains preferred by profiles can
// be built; nil if no profile of a signer prefers a chain. The roots of issuers are known
// only from their certificates.
func (published signerRoots) chainsOf(e *v1alpha1.AcmeEndpointSpec) *metav1.Condition {
	prefers := false
	for i := range e.Profiles {
		p := &e.Profiles[i]
		if p.Signer == nil || len(p.Chains) == 0 {
			continue
		}
		prefers = true
		roots, isRead := published[p.Signer.Name]
		if unknown := acmeorder.UnknownRoots(p, roots); isRead && len(unknown) > 0 {
			return &metav1.Condition{
				Type: chainsPublished, Status: metav1.ConditionFalse, Reason: reasonRootUnknown,
				Message: fmt.Sprintf("the profile %s prefers chains to %s, but no ClusterTrustBundle of the signer %s contains a CA certificate issued by a root with this name: the server offers the existing chains", p.Name, strings.Join(unknown, ", "), p.Signer.Name),
			}
		}
	}
	if !prefers {
		return nil
	}
	return &metav1.Condition{
		Type: chainsPublished, Status: metav1.ConditionTrue, Reason: reasonPublished,
		Message: "the ClusterTrustBundles of the signers contain the roots that profiles prefer, or CAs below them",
	}
}
