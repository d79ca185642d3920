package status

import (
	"cmp"
	"context"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/whocan"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/holders"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Renewing is an enforced policy that permits renewals without people.
type Renewing struct {
	Policy string `json:"policy"`
	// Certificates is the number of valid certificates that only the policy has approved,
	// counted from stored requests.
	Certificates int `json:"certificates"`
	// Since is the start of the oldest certificate's validity, Until the latest expiry.
	Since *metav1.Time `json:"since,omitempty"`
	Until *metav1.Time `json:"until,omitempty"`
}

// Impersonator is a user who can vote as another user for a policy: an API server does
// not report impersonation to its webhooks.
type Impersonator struct {
	Policy string `json:"policy"`
	holders.Actor
}

// renewed collects valid certificates that were renewed without people.
func (s *state) renewed(conditions []quorum.Condition, certificate []byte, now time.Time) {
	policy := policies.RenewedBy(conditions)
	if policy == "" {
		return
	}
	chain, err := pki.ParseCertificates(certificate)
	if err != nil || now.Before(chain[0].NotBefore) || !now.Before(chain[0].NotAfter) {
		return
	}
	r := s.renewals[policy]
	r.Policy, r.Certificates = policy, r.Certificates+1
	if begin := metav1.NewTime(chain[0].NotBefore); r.Since == nil || begin.Before(r.Since) {
		r.Since = &begin
	}
	if end := metav1.NewTime(chain[0].NotAfter); r.Until == nil || r.Until.Before(&end) {
		r.Until = &end
	}
	if s.renewals == nil {
		s.renewals = map[string]Renewing{}
	}
	s.renewals[policy] = r
}

// renewing returns the policies that permit renewals without people or have done so,
// sorted by name.
func (s *state) renewing() []Renewing {
	all := make([]Renewing, 0, len(s.renewals))
	for _, r := range s.renewals {
		all = append(all, r)
	}
	for _, p := range s.policies {
		if _, has := s.renewals[p.Name]; !has && s.wantsPeople(p) && p.Spec.Approval.Renewals == v1alpha1.RenewAutomatic {
			all = append(all, Renewing{Policy: p.Name})
		}
	}
	slices.SortFunc(all, func(a, b Renewing) int { return cmp.Compare(a.Policy, b.Policy) })
	return all
}

// wantsPeople reports whether a policy is enforced and requires people.
func (s *state) wantsPeople(p *v1alpha1.CertificatePolicy) bool {
	return p.Spec.EffectiveMode() == v1alpha1.PolicyEnforce && p.Spec.Approval != nil && p.Spec.Approval.Mode == v1alpha1.ApprovePeople && p.Spec.Approval.People != nil
}

// readRBAC reads the rights to impersonate, if they matter: "certplane serve" does not
// count votes of impersonated users.
func (s *state) readRBAC(ctx context.Context, api client.Reader) error {
	if s.serve() || !slices.ContainsFunc(s.policies, s.wantsPeople) {
		return nil
	}
	objects, forbidden, resource, err := whocan.Read(ctx, api, "")
	if err != nil {
		return exit.Advise("reading "+resource, err)
	}
	if s.rbac = objects; len(forbidden) > 0 {
		return forbidden[0]
	}
	return nil
}

// impersonators returns the users who can vote as another user, by policy.
func (s *state) impersonators() []Impersonator {
	var all []Impersonator
	for _, p := range s.policies {
		if !s.wantsPeople(p) {
			continue
		}
		for _, actor := range actors(s.rbac, votersOf(p.Spec.Approval.People)) {
			all = append(all, Impersonator{p.Name, actor})
		}
	}
	slices.SortStableFunc(all, func(a, b Impersonator) int { return cmp.Compare(a.Policy, b.Policy) })
	return all
}

// votersOf returns the users and groups that a policy names; none if any user with the
// right to approve counts.
func votersOf(people *v1alpha1.PeopleRequirement) []holders.Subject {
	var all []holders.Subject
	for _, from := range people.From {
		for _, name := range from.Users {
			all = append(all, holders.SubjectOfUser(name))
		}
		for _, name := range from.Groups {
			all = append(all, holders.Subject{Kind: rbacv1.GroupKind, Name: name})
		}
	}
	return all
}

// actors returns the users who can act as one of the voters, or as any user if a policy
// names none.
func actors(o holders.Objects, voters []holders.Subject) []holders.Actor {
	if len(voters) > 0 {
		return holders.FindActors(o, voters)
	}
	return holders.FindActors(o, []holders.Subject{holders.AnyUser})
}
