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

// publishedBy returns what the signers of the profiles of an endpoint publish.
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

// since returns the roots of the signers of an endpoint, with since when they are
// published. was are those that it has known: what cannot be read stays as it was.
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

// chainsOf says whether the chains that profiles prefer can be made; nil if no profile
// of a signer prefers any. What issuers lead to is known only of their certificates.
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
				Message: fmt.Sprintf("the profile %s prefers chains to %s, and no ClusterTrustBundle of the signer %s has a CA with a certificate by a root of that name: clients are offered what there is", p.Name, strings.Join(unknown, ", "), p.Signer.Name),
			}
		}
	}
	if !prefers {
		return nil
	}
	return &metav1.Condition{
		Type: chainsPublished, Status: metav1.ConditionTrue, Reason: reasonPublished,
		Message: "the ClusterTrustBundles of the signers have the roots that profiles prefer, or CAs below them",
	}
}
