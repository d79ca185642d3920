// Package policycheck applies certificate policies to writes of requests, and
// decides which policies may be stored.
package policycheck

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Checks checks writes. It is safe for concurrent use.
type Checks struct {
	policies  *policies.Policies
	authorize policies.AccessFunc
	clock     clock.PassiveClock
}

// New returns the checks by these policies. authorize answers what the users who
// write policies may do.
func New(p *policies.Policies, authorize policies.AccessFunc) *Checks {
	return &Checks{policies: p, authorize: authorize, clock: clock.RealClock{}}
}

// Now returns the time of a check.
func (c *Checks) Now() time.Time { return c.clock.Now() }

// Target is the object that is written.
type Target struct {
	Resource schema.GroupResource
	Name     string
}

// Result is what follows for a write.
type Result struct {
	// Warnings are for the user.
	Warnings []string
	// Annotations are for the audit log.
	Annotations map[string]string
	// Refusal is nil if the write is permitted.
	Refusal *apierrors.StatusError
}

// The annotations of audit events.
const (
	auditOutcome    = "policy.certplane.dev/outcome"
	auditPolicy     = "policy.certplane.dev/policy"
	auditViolations = "policy.certplane.dev/violations"
	auditVote       = "policy.certplane.dev/vote"
)

func (r *Result) annotate(d *v1alpha1.PolicyDecision) {
	if d == nil {
		return
	}
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[auditOutcome] = string(d.Outcome)
	if d.Policy != nil {
		r.Annotations[auditPolicy] = d.Policy.Name
	}
	addresses := map[string]bool{}
	for _, v := range d.Violations {
		addresses[v.Policy+" "+v.At] = true
	}
	if len(addresses) > 0 {
		r.Annotations[auditViolations] = strings.Join(slices.Sorted(maps.Keys(addresses)), ", ")
	}
}

// kubelets are the signers whose requests are never refused when they are
// created: a kubelet tries again and again, with a new key each time.
var kubelets = []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName}

// Create refuses a new request if the policies certainly forbid it. What depends
// on people or on facts that are not known is stored.
func (c *Checks) Create(ctx context.Context, to Target, req request.Request) (result Result) {
	if !c.policies.Settings().CreateChecks || slices.Contains(kubelets, req.SignerName) || c.policies.ForCertificate(&req) {
		return result
	}
	d, err := c.policies.Decide(ctx, certpolicy.Input{Stage: v1alpha1.StageCreate, Request: req})
	if err != nil || d == nil {
		return result // the approver and the signer decide
	}
	result.annotate(d.PolicyDecision)
	for _, shadow := range d.Shadow {
		if shadow.Mode == v1alpha1.PolicyWarn && shadow.Differs {
			result.Warnings = append(result.Warnings, fmt.Sprintf("certificate policy %s is not enforced yet; with it, the outcome would be %s: %s",
				shadow.Policy, shadow.Outcome, shadow.Message))
		}
	}
	if d.Outcome == v1alpha1.OutcomeDeny {
		result.Refusal = to.forbidden(d.Message)
		result.Refusal.ErrStatus.Details.Causes = causes(d)
	}
	return result
}

// causes has one cause for each violation, with the field of the object.
func causes(d *policies.Decision) []metav1.StatusCause {
	var list []metav1.StatusCause
	for _, v := range d.Set.Disclosed(d.Violations) {
		list = append(list, metav1.StatusCause{Type: metav1.CauseType(v.Reason), Field: specField(v.Field), Message: v.Message})
	}
	return list
}

// specField returns the field of the object that has a field of the request.
func specField(field string) string {
	name, _, _ := strings.Cut(field, "[")
	switch name {
	case "usages", "isCA":
		return "spec." + field
	case "duration":
		return "spec"
	}
	return "spec.request"
}

func (t Target) forbidden(message string) *apierrors.StatusError {
	return apierrors.NewForbidden(t.Resource, t.Name, fmt.Errorf("%s", message))
}

// Conditions is a write of the conditions of a request.
type Conditions struct {
	Target
	// Request is what will be stored, with the spec that is stored now.
	Request request.Request
	// Old are the conditions that are stored, New those that are sent.
	Old, New []quorum.Condition
	User     quorum.Voter
}

// concerns reports whether the write is for the policies: one can be about the
// request, or it has conditions that only the server writes.
func (c *Checks) concerns(w Conditions) bool {
	return quorum.HasOwn(w.Old) || quorum.HasOwn(w.New) || c.policies.Concern(w.Request.Kind, certpolicy.SignerName(w.Request))
}

// Mutate returns the conditions to store in place of those that are sent.
func (c *Checks) Mutate(ctx context.Context, w Conditions) (conditions []quorum.Condition, result Result) {
	if !c.concerns(w) {
		return w.New, result
	}
	write, unknown := c.write(ctx, w)
	mutation, err := write.Mutate()
	switch {
	case err != nil:
		result.Refusal = unavailable(err)
		return w.New, result
	case mutation.Refusal != nil && *unknown:
		result.Refusal = unavailable(policies.ErrUnknown)
		return w.New, result
	}
	result.Warnings = mutation.Warnings
	result.annotate(mutation.Decision)
	if mutation.Recorded != nil {
		result.Annotations[auditVote] = fmt.Sprint(mutation.Recorded.N)
	}
	if mutation.Refusal != nil {
		result.Refusal = w.refuse(mutation.Refusal)
		return w.New, result
	}
	return mutation.Conditions, result
}

// Validate refuses conditions that must not be stored, whoever has changed them
// since Mutate.
func (c *Checks) Validate(ctx context.Context, w Conditions) (result Result) {
	if !c.concerns(w) {
		return result
	}
	write, unknown := c.write(ctx, w)
	switch refusal := write.Validate(); {
	case refusal != nil && *unknown:
		result.Refusal = unavailable(policies.ErrUnknown)
	case refusal != nil:
		result.Refusal = w.refuse(refusal)
	}
	return result
}

// write returns the write for package quorum. unknown is set once a decision was
// needed although the policies are not known.
func (c *Checks) write(ctx context.Context, w Conditions) (write *quorum.Write, unknown *bool) {
	unknown = new(bool)
	var first *policies.Decision
	decide := func(votes []quorum.Vote) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
		if first != nil {
			again := first.Again(votes)
			return again.PolicyDecision, again.Requirements
		}
		d, err := c.policies.Decide(ctx, certpolicy.Input{Stage: v1alpha1.StageApprove, Request: w.Request, Votes: votes, Time: c.clock.Now()})
		switch {
		case err != nil:
			*unknown = true
			return &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeWait, Reason: certpolicy.ReasonUnavailable, Message: err.Error()}, nil
		case d == nil:
			return &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeLeave}, nil
		}
		first = d
		return d.PolicyDecision, d.Requirements
	}
	var all []quorum.Requirement
	if set, err := c.policies.Set(); err == nil {
		all = set.People()
	}
	seals := c.policies.Seals()
	return &quorum.Write{
		Request: w.Request, Old: w.Old, New: w.New, User: w.User, Now: c.clock.Now(), Decide: decide, All: all, Open: seals.Open, Seal: seals.Seal,
	}, unknown
}

func (w Conditions) refuse(r *quorum.Refusal) *apierrors.StatusError {
	refused := w.forbidden(r.Message)
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseType(r.Reason), Field: "status.conditions", Message: r.Message}}
	return refused
}

func unavailable(err error) *apierrors.StatusError {
	e := apierrors.NewServiceUnavailable(err.Error())
	e.ErrStatus.Code = http.StatusServiceUnavailable
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return e
}
