package policies

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// carried returns the approvals of an earlier order of an ACME client that may count for
// a request, if policies permit it. An order that cannot be read does not count: then
// people have to approve.
func (f *Facts) carried(ctx context.Context, r *request.Request, open quorum.OpenFunc) []quorum.Vote {
	votes, err := f.Orders.Carried(ctx, r, open, f.Access)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot read the earlier AcmeOrder whose approvals may count for a request", "request", r.Name)
	}
	return votes
}

// Carried opens the approvals of the order from which the order of a request carries
// them over. It counts only sealed approvals, not what orders state.
func (s *Orders) Carried(ctx context.Context, r *request.Request, open quorum.OpenFunc, access AccessFunc) ([]quorum.Vote, error) {
	proof, err := s.proof(ctx, r)
	if proof == nil || err != nil || proof.Order.Status.CarryFrom == "" {
		return nil, err
	}
	if proof.Endpoint, err = s.facts.Endpoint(ctx, proof.Order.Spec.Endpoint); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if proof.Of(*r, s.now()) == nil {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: proof.Order.Namespace, Name: proof.Order.Status.CarryFrom}
	from, err := s.facts.Order(ctx, key)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	asked := acmeorder.Approval{Order: proof.Order, Request: *r, Endpoint: proof.Endpoint, Account: proof.Account}
	var votes []quorum.Vote
	for _, sealed := range acmeorder.SealedApprovals(from) {
		record, err := open(sealed)
		if err != nil || record.Order == nil || record.Override != nil {
			continue
		}
		if (acmeorder.Carried{From: from, Terms: &record.Order.Terms, Time: record.Time}).Check(asked, s.now()) != nil {
			continue
		}
		if may, err := MayStillApprove(ctx, access, record, *r); err != nil || !may {
			if err != nil {
				return nil, err
			}
			continue
		}
		vote := record.Vote()
		vote.CarriedFrom = key.String()
		votes = append(votes, vote)
	}
	return votes, nil
}

// MayStillApprove checks whether the user who approved the request of an ACME order may
// approve another one, with the groups at the time of the approval.
func MayStillApprove(ctx context.Context, access AccessFunc, by quorum.Record, asked request.Request) (bool, error) {
	group, signer := certificatesv1.GroupName, certpolicy.SignerName(asked)
	if asked.Issuer != nil && asked.Kind == request.CertificateRequests {
		group = certmanager.Group
	}
	domain, _, _ := strings.Cut(signer, "/")
	who := request.Requester{Username: by.User, UID: by.UserUID, Groups: by.Order.Groups, Extra: by.Order.Extra}
	for _, name := range []string{signer, domain + "/*"} {
		may, err := access(ctx, who, certpolicy.Access{Verb: "approve", Group: group, Resource: "signers", Name: name})
		if err != nil {
			return false, fmt.Errorf("asking whether %s may still approve: %w", by.User, err)
		}
		if may {
			return true, nil
		}
	}
	return false, nil
}

// carriedBy returns the earlier AcmeOrder whose approvals count, as NAMESPACE/NAME, and
// the users who gave them; empty if none counts.
func carriedBy(d *v1alpha1.PolicyDecision) (order string, by []string) {
	if d.People == nil {
		return "", nil
	}
	for _, vote := range d.People.Votes {
		if vote.Counts && vote.CarriedFrom != "" {
			order, by = vote.CarriedFrom, append(by, vote.User)
		}
	}
	return order, by
}
