package explain

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Verdict is the expected result of an approval by the caller.
type Verdict struct {
	// May reports whether the caller has the permission to decide.
	May Result
	// Refusal is the reason why policies would refuse the approval or not count it; empty
	// if they would count it.
	Refusal string
	// NotAPerson reports that people are required, and the caller does not count as one.
	NotAPerson bool
	// Voted reports that the caller has approved, and that more approvals are missing.
	Voted bool
	// Objection is the reason why the signer would refuse the request once it is
	// approved; empty if no reason is known.
	Objection string
	// People are the requirements of policies, Approvals the approvals of people that
	// count.
	People    []v1alpha1.PeopleMissing
	Approvals []Vote
	// Unknown lists facts that could not be determined; empty if all were.
	Unknown string
}

// Vote is an approval of a person that counts.
type Vote struct {
	Time time.Time
	// Text names the person and the count, as the condition does.
	Text string
}

// Verdicts predicts the results of the caller's decisions. It reads policies and Signers
// once, checks each permission once, and is not safe for concurrent use.
type Verdicts struct {
	api      Reader
	q        Query
	caller   quorum.Person
	approver *Approver
	policies *policyReader
	declared map[string]*declaration
}

// declaration is a signer that a Signer declares, as far as it could be read.
type declaration struct {
	compiled *profile.Profile
	err      error // of a declaration that cannot be used
}

// NewVerdicts returns a Verdicts for the caller of an API.
func NewVerdicts(ctx context.Context, api Reader, caller quorum.Person, q Query) *Verdicts {
	return &Verdicts{
		api: api, q: q, caller: caller, approver: NewApprover(api),
		policies: newPolicyReader(ctx, api, q), declared: map[string]*declaration{},
	}
}

// Of returns the verdict for a CertificateSigningRequest or a CertificateRequest, which
// must be pending.
func (v *Verdicts) Of(ctx context.Context, object client.Object) (Verdict, error) {
	objection := requestKindOf(object).objection
	if objection == nil {
		return Verdict{May: No}, nil
	}
	k := requestkind.Of(object)
	req, conditions := k.View(object), k.Conditions(object)
	var out Verdict
	var err error
	if out.Objection, err = objection(ctx, v, object, req); err != nil {
		return Verdict{}, err
	}
	if out.May, err = v.approver.May(ctx, object); err != nil {
		return Verdict{}, err
	}
	found, err := v.policies.judge(ctx, req, conditions)
	if err != nil {
		return Verdict{}, err
	}
	out.ask(found, v, req)
	if people := found.decision; people != nil && people.People != nil {
		out.Approvals = v.approvals(ctx, people.People.Votes, req, conditions)
	}
	return out, nil
}

// approvals returns the votes that count, as the conditions of the request describe them.
func (v *Verdicts) approvals(ctx context.Context, votes []v1alpha1.CountedVote, req request.Request, conditions []quorum.Condition) []Vote {
	open, err := v.policies.facts.Open(ctx)
	if err != nil {
		return nil // without keys, no vote counts
	}
	examined := quorum.Examine(conditions, req, open)
	var all []Vote
	for _, vote := range votes {
		if !vote.Counts {
			continue
		}
		one := Vote{vote.Time.Time, vote.User + " approved"}
		for _, e := range examined {
			if e.Err == nil && e.Record.User == vote.User && e.Record.Time.Equal(vote.Time.Time) {
				one.Text = quorum.Unsealed(e.Condition)
			}
		}
		all = append(all, one)
	}
	return all
}

// ask adds the results of the policies.
func (out *Verdict) ask(found judged, v *Verdicts, req request.Request) {
	var unknown []string
	for _, c := range found.checks {
		if c.Result == Unknown {
			unknown = append(unknown, c.Name+": "+c.Message)
		}
	}
	out.Unknown = strings.Join(unknown, "; ")
	if found.decision == nil {
		return
	}
	if people := found.decision.People; people != nil {
		out.People = people.Requirements
	}
	refusal := quorum.Prospect(found.decision, found.required, found.votes, quorum.Voter{Person: v.caller}, req.Requester, v.q.Now)
	switch {
	case refusal == nil:
	case refusal.Reason == quorum.ReasonAlreadyApproved:
		out.Voted = true
	default:
		out.Refusal, out.NotAPerson = refusal.Message, refusal.Reason == quorum.ReasonNotAPerson
	}
}

// objection returns the reason why the signer of a request would refuse it.
func (v *Verdicts) objection(ctx context.Context, c *csr, req request.Request) (string, error) {
	if profiled(c.Spec.SignerName) {
		return textOf(objection(c, v.q.Now)), nil
	}
	declared, err := v.declaration(ctx, c.Spec.SignerName)
	switch {
	case err != nil || declared == nil:
		return "", err
	case declared.err != nil:
		return declared.err.Error(), nil
	}
	return textOf(decideBy(ctx, v.api, declared.compiled, req, v.q)), nil
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// declaration returns the Signer's declaration of a signer name; nil if unknown.
func (v *Verdicts) declaration(ctx context.Context, signerName string) (*declaration, error) {
	if known, ok := v.declared[signerName]; ok {
		return known, nil
	}
	by, _, err := declarer(ctx, v.api, signerName)
	if err != nil {
		return nil, err
	}
	var found *declaration
	if by != nil {
		found = &declaration{}
		compiled, errs := profile.Compile(by.Spec, field.NewPath("spec"))
		found.compiled, found.err = compiled, errs.ToAggregate()
	}
	v.declared[signerName] = found
	return found, nil
}
