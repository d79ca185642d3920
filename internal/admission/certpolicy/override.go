package certpolicy

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	policy "github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// maxWhy is the size in bytes of the longest reason for an override.
const maxWhy = 512

// Annotating is a write of the metadata of a request.
type Annotating struct {
	Resource schema.GroupResource
	// Request is the request that will be stored, with the annotations that were sent.
	// At creation, its requester is the user.
	Request request.Request
	// Stored are the annotations that are stored.
	Stored map[string]string
	User   quorum.Voter
}

// Annotate lets only users who may override all overridable policies of the request set
// the reason for an override, and never the requester. Otherwise a user with that right
// who approves a request could override policies because of an annotation by another
// user.
func (c *Checks) Annotate(ctx context.Context, a Annotating) Outcome {
	if !SetsOverride(a.Request.ObjectAnnotations, a.Stored) {
		return Outcome{}
	}
	why := a.Request.ObjectAnnotations[v1alpha1.AnnotationOverride]
	refuse := func(format string, args ...any) Outcome {
		return Outcome{Refusal: forbidden(a.Resource, a.Request.Name, "annotation "+v1alpha1.AnnotationOverride+": "+fmt.Sprintf(format, args...))}
	}
	switch {
	case len(why) > maxWhy:
		return refuse("must have at most %d bytes", maxWhy)
	case a.User.Impersonator != "":
		return refuse("%s impersonates %s, and people override policies in their own name", a.User.Impersonator, a.User.Username)
	}
	d, err := c.policies.Decide(ctx, policy.Input{Stage: v1alpha1.StageApprove, Request: a.Request})
	if err != nil {
		return Outcome{Refusal: unavailable(err)}
	}
	overridable := 0
	for _, req := range requirementsOf(d) {
		if !req.Overridable() {
			continue
		}
		overridable++
		if objection := quorum.MayVote([]quorum.Requirement{anybody(req)}, nil, a.User, a.Request.Requester, c.policies.Now()); objection != nil {
			return refuse("%s", objection.Message)
		}
		switch may, err := c.mayOverride(ctx, a.User, req.Policy); {
		case err != nil:
			return Outcome{Refusal: unavailable(err)}
		case !may:
			return refuse(`it needs the verb "override" on certificatepolicies %q of %s`, req.Policy, v1alpha1.GroupName)
		}
	}
	if overridable == 0 {
		return refuse("no certificate policy that requires people for this request can be overridden")
	}
	return Outcome{}
}

// SetsOverride reports whether a write of annotations sets or changes the reason for an
// override. stored are the stored annotations.
func SetsOverride(sent, stored map[string]string) bool {
	why := sent[v1alpha1.AnnotationOverride]
	return why != "" && why != stored[v1alpha1.AnnotationOverride]
}

// requirementsOf returns the people that a decision requires. d may be nil.
func requirementsOf(d *policies.Decision) []quorum.Requirement {
	if d == nil {
		return nil
	}
	return d.Requirements
}

// anybody returns a requirement that every user helps to meet whom req distinguishes
// from the requester.
func anybody(req quorum.Requirement) quorum.Requirement {
	req.People.From, req.People.ValidFor = nil, nil
	return req
}

// mayOverride reports whether a user may override a policy.
func (c *Checks) mayOverride(ctx context.Context, user quorum.Voter, name string) (bool, error) {
	info := authenticationv1.UserInfo{Username: user.Username, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	allowed, err := c.authorize(ctx, info, onPolicies("override", name))
	if err != nil {
		return false, fmt.Errorf("asking whether user %q may override the policy %q: %w", user.Username, name, err)
	}
	return allowed, nil
}
