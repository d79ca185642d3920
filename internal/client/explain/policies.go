package explain

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/rights"
)

// policyReader evaluates the certificate policies of an API for requests. It reads the
// policies once, and is not safe for concurrent use.
type policyReader struct {
	api Reader
	Query
	// set is nil until it has been read, and if no policies exist; unread holds the
	// reason if it could not be read.
	set    *certpolicy.Set
	unread []Check
	read   bool
	// facts finds the facts that policies read.
	facts *policies.Published
}

func newPolicyReader(ctx context.Context, api Reader, q Query) *policyReader {
	homes := sync.OnceValue(func() []string { return q.controllers(ctx, api) })
	return &policyReader{api: api, Query: q, facts: &policies.Published{
		Objects: api, Access: accessOf(api), Controllers: certificateControllers(), Now: func() time.Time { return q.Now },
		SealKeys: func(ctx context.Context) ([]ed25519.PublicKey, error) {
			return policies.ReadSealKeys(ctx, api, homes())
		},
		Ledger: &policies.LedgerReader{API: api, Certain: q.Controllers != "", Namespaces: func(context.Context) []string { return homes() }},
	}}
}

// judged is the result of the policies for a request.
type judged struct {
	// decision is nil if no policy can match the request, or if the policies are unknown.
	decision *v1alpha1.PolicyDecision
	// required holds the required people, votes the approvals with valid seals.
	required []quorum.Requirement
	votes    []quorum.Vote
	// checks holds one check for the decision, and one for each policy that was
	// considered.
	checks []Check
}

// policyChecks returns the results of the certificate policies for a request: one check
// for the decision, and one for each policy that was considered. It returns none if no
// policy can match the request.
func policyChecks(ctx context.Context, api Reader, req request.Request, conditions []quorum.Condition, q Query) ([]Check, error) {
	found, err := newPolicyReader(ctx, api, q).judge(ctx, req, conditions)
	return found.checks, err
}

// load reads the policies, unless they have been read.
func (r *policyReader) load(ctx context.Context) error {
	if r.read {
		return nil
	}
	var stored v1alpha1.CertificatePolicyList
	var exceptions v1alpha1.CertificatePolicyExceptionList
	for _, objects := range []struct {
		read func() (Result, error)
		name string
	}{
		{func() (Result, error) { return list(ctx, r.api, &stored) }, "CertificatePolicies"},
		{func() (Result, error) { return list(ctx, r.api, &exceptions) }, "CertificatePolicyExceptions"},
	} {
		switch found, err := objects.read(); {
		case err != nil:
			return err
		case found == Unknown:
			r.read, r.unread = true, []Check{{"policies", Unknown, "you may not list " + objects.name}}
			return nil
		case found == No:
			r.read = true // the API has no policies
			return nil
		}
	}
	r.read, r.set = true, setOf(stored.Items, exceptions.Items)
	return nil
}

// judge evaluates the policies for a request. The approvals of people are read from
// conditions, the conditions of the request, if their seals verify with the keys that the
// server publishes. If these keys cannot be read, judge uses the server's last count in
// conditions.
func (r *policyReader) judge(ctx context.Context, req request.Request, conditions []quorum.Condition) (judged, error) {
	if err := r.load(ctx); err != nil || r.set == nil {
		return judged{checks: r.unread}, err
	}
	q, set := r.Query, r.set
	requestPolicies, unknown, err := decisionOfRequestPolicies(ctx, r.api, r.facts.Facts(), &req)
	if err != nil {
		return judged{}, err
	}
	if requestPolicies == nil && !set.Concerns(req.Kind, certpolicy.SignerName(req)) {
		return judged{checks: unknown}, nil
	}
	in := certpolicy.Input{Stage: v1alpha1.StageCheck, Request: req, Time: q.Now, Patience: policies.DefaultSettings().Patience.Duration}
	needs := set.Needs(&req)
	note := func(name, about string, err error) {
		if err != nil {
			unknown = append(unknown, Check{name, Unknown, about + err.Error()})
		}
	}
	in.Facts, err = r.facts.Of(ctx, &req, needs)
	if _, unlisted := errors.AsType[*policies.UnlistedError](err); !unlisted { // the caller may lack the right to list them
		note("renewal", "it is unknown whether it renews an earlier request: ", err)
	}
	in.Facts.RequestPolicies = policies.RequestPoliciesFact(requestPolicies)
	if quotas := set.Quotas(&req); len(quotas) > 0 {
		in.Facts.Quotas, err = r.facts.Ledger.Use(ctx, quotas, req.UID, q.Now)
		note("quotas", "", err)
	}
	var unverified []Check
	if in.Votes, err = r.facts.Votes(ctx, &req, conditions); err != nil {
		in.SealsUnknown = true
		unverified = []Check{{"approvals", Unknown, "cannot be verified: " + err.Error()}}
	}
	carried, err := r.facts.Carried(ctx, &req, needs)
	in.Votes = append(in.Votes, carried...)
	note("earlier orders", "it is unknown whether approvals of an earlier order count: ", err)
	decision, required := set.DecideVotes(in)
	return judged{decision, required, in.Votes, slices.Concat(decisionChecks(decision, conditions), unverified, quotaChecks(in.Facts.Quotas), requestPolicyChecks(requestPolicies), unknown)}, nil
}

// voteChecks returns a check for each approval of people with a valid seal.
func voteChecks(d *v1alpha1.PolicyDecision) []Check {
	if d.People == nil {
		return nil
	}
	var checks []Check
	for _, v := range d.People.Votes {
		check := Check{"approval by " + v.User, Yes, "counts, since " + v.Time.UTC().Format(time.RFC3339)}
		switch {
		case v.Counts && v.Override != "":
			check.Message += ", overriding policies: " + strconv.Quote(v.Override)
		case v.Counts && v.CarriedFrom != "":
			check.Message += ", from the earlier AcmeOrder " + v.CarriedFrom
		case !v.Counts:
			check.Result, check.Message = No, "does not count: "+v.Because
		}
		checks = append(checks, check)
	}
	return checks
}

func setOf(stored []v1alpha1.CertificatePolicy, exceptions []v1alpha1.CertificatePolicyException) *certpolicy.Set {
	var all []*v1alpha1.CertificatePolicy
	for i := range stored {
		all = append(all, &stored[i])
	}
	var exempt []*v1alpha1.CertificatePolicyException
	for i := range exceptions {
		exempt = append(exempt, &exceptions[i])
	}
	return certpolicy.NewSet(all, exempt)
}

// certificateControllers returns the users whose requests can belong to Certificates,
// unless the configuration names others.
func certificateControllers() []string {
	names := policies.DefaultSettings().CertificateControllers
	for _, namespace := range []string{rights.ServeNamespace, rights.ClusterNamespace} {
		names = append(names, request.ServiceAccount(namespace, rights.IssueCertificates.Account).Username)
	}
	return names
}

// accessOf checks the access of users.
func accessOf(api Reader) policies.AccessFunc {
	return func(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
		return api.May(ctx, policies.AccessReview(who, what))
	}
}

func decisionChecks(d *v1alpha1.PolicyDecision, conditions []quorum.Condition) []Check {
	checks := []Check{{"policies", outcomeResult(d.Outcome), outcomeText(d, conditions)}}
	for _, p := range d.Considered {
		name := "policy " + p.Policy
		switch {
		case !p.Applies:
			checks = append(checks, Check{name, Open, "does not apply: " + p.Because})
		case p.Holds && p.Effect == v1alpha1.PolicyDenyRest:
			checks = append(checks, Check{name, Yes, "denies what no other policy allows"})
		case p.Holds:
			checks = append(checks, Check{name, Yes, holdsText(d, p)})
		case p.Because != "":
			checks = append(checks, Check{name, No, p.Because})
		default:
			checks = append(checks, Check{name, No, fmt.Sprintf("%s: %s", p.Effect, strings.Join(violationTexts(d, p.Policy), "; "))})
		}
	}
	return append(checks, voteChecks(d)...)
}

// holdsText describes a policy that holds, with the exceptions that it needs.
func holdsText(d *v1alpha1.PolicyDecision, p v1alpha1.ConsideredPolicy) string {
	excepted := violationTexts(d, p.Policy)
	if len(excepted) == 0 {
		return fmt.Sprintf("%s: all conditions hold", p.Effect)
	}
	return fmt.Sprintf("%s: all other conditions hold: %s", p.Effect, strings.Join(excepted, "; "))
}

// violationTexts describes the violations and open facts of a policy, with the values
// that would pass.
func violationTexts(d *v1alpha1.PolicyDecision, policy string) []string {
	var texts []string
	for _, v := range d.Violations {
		if v.Policy != policy {
			continue
		}
		text := fmt.Sprintf("%s (%s, %s)", v.Message, v.Reason, v.At)
		if len(v.WouldPass) > 0 {
			text += "; would pass: " + strings.Join(v.WouldPass, ", ")
		}
		if v.Exception != "" {
			text += "; excepted by " + v.Exception
		}
		texts = append(texts, text)
	}
	for _, o := range d.Open {
		if o.Policy == policy {
			texts = append(texts, fmt.Sprintf("%s is not known yet (%s)", o.Fact, o.At))
		}
	}
	return texts
}

func outcomeResult(o v1alpha1.DecisionOutcome) Result {
	switch o {
	case v1alpha1.OutcomeApprove:
		return Yes
	case v1alpha1.OutcomeDeny:
		return No
	}
	return Open
}

// outcomeText describes the outcome of a decision in one line.
func outcomeText(d *v1alpha1.PolicyDecision, conditions []quorum.Condition) string {
	switch d.Outcome {
	case v1alpha1.OutcomeApprove:
		if d.People != nil {
			return "enough people have approved it, as policy " + d.Policy.Name + " requires"
		}
		if d.Renews != nil {
			return fmt.Sprintf("approved by policy %s: it renews the %s %s, which people have approved", d.Policy.Name, d.Renews.Kind, request.FullName(d.Renews.Namespace, d.Renews.Name))
		}
		return "approved by policy " + d.Policy.Name
	case v1alpha1.OutcomeDeny:
		return fmt.Sprintf("denied (%s): %s", d.Reason, d.Message)
	case v1alpha1.OutcomeNeedPeople:
		return peopleText(d, conditions)
	case v1alpha1.OutcomeWait:
		if policies.HasVotes(conditions) && slices.ContainsFunc(d.Open, func(o v1alpha1.OpenCondition) bool { return o.At == certpolicy.AtPeople }) {
			return peopleText(d, conditions)
		}
		return "cannot be decided yet: " + d.Message
	}
	return "no policy decides: any user with the right may approve it"
}

// needPeople starts the text for a request that waits for people whose approvals count.
const needPeople = "people must approve it: "

// peopleText names the people who must approve a request, by the server's last count of
// its approvals.
func peopleText(d *v1alpha1.PolicyDecision, conditions []quorum.Condition) string {
	for _, c := range conditions {
		switch c.Type {
		case quorum.AwaitingApproval:
			return needPeople + c.Message
		case string(certificatesv1.CertificateApproved):
			if c.Reason == policies.ReasonApproved || c.Reason == requestkind.ReasonOfRequests {
				return c.Message + "; the signer decides again"
			}
			return "people had to approve it, and it is approved: " + overridesText(conditions) + "the signer counts their approvals again"
		}
	}
	return needPeople + d.Message
}

// overridesText names the users who have overridden policies; empty without any.
func overridesText(conditions []quorum.Condition) string {
	var text string
	for _, c := range conditions {
		if quorum.IsVote(c.Type) && c.Reason == quorum.ReasonOverride {
			text += quorum.Unsealed(c) + "; "
		}
	}
	return text
}
