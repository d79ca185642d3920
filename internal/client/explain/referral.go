package explain

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/rights"
)

// referral holds the facts about a request that names an issuer of cert-manager.io as its
// signer.
type referral struct {
	signer certmanager.Signer
	issuer *IssuerFacts
	// allowed reports whether the requester may refer to the issuer. It is Open if it is
	// not checked: for ClusterIssuers, and for answered requests.
	allowed Result
	// mayGrant reports whether the caller may grant that permission.
	mayGrant Result
	// ordered is the Order of the request; nil if the issuer is not of ACME.
	ordered *ordered
	// terms is the issuer's objection to the requested certificate, or nil.
	terms error
}

// findReferral finds the issuer that a request names, if it names one.
func (f *facts) findReferral(ctx context.Context, api Reader) error {
	signer, isIssuer := certmanager.ParseSignerName(f.csr.Spec.SignerName)
	if !isIssuer {
		return nil
	}
	found, err := findReferred(ctx, api, signer)
	if err != nil {
		return err
	}
	r := &referral{signer: signer, issuer: found, allowed: Open}
	r.terms = checkTerms(f.csr, found.selfSigned())
	if err := r.ask(ctx, api, f.csr); err != nil {
		return err
	}
	if r.ordered, err = findOrdered(ctx, api, found, signer.Namespace, string(f.csr.UID), f.Query); err != nil {
		return err
	}
	f.referral, f.objection = r, r.objection(f.csr.Spec.Username)
	return nil
}

// checkTerms returns an issuer's objection to a request, which is independent
// of the requester.
func checkTerms(c *csr, selfSigned bool) error {
	requested, err := issuing.RequestOf(request.FromCSR(c).ForSigner())
	if err != nil {
		return err
	}
	if selfSigned && c.Annotations[request.AnnotationKey] == "" {
		return selfsigned.NoKey(request.AnnotationKey)
	}
	return requested.Check()
}

// ask checks like the signer whether the requester may refer to the issuer.
func (r *referral) ask(ctx context.Context, api Reader, c *csr) (err error) {
	references := requests.References(r.signer)
	switch v := certificates.Judge(c); {
	case len(references) == 0, v.State == certificates.Issued, v.State == certificates.Denied,
		v.State == certificates.Failed && v.Condition.Reason != issuing.ReasonDeniedReference:
		return nil
	}
	ofRequester := accessCheck(func(access authorizationv1.ResourceAttributes) (Result, error) {
		return result(api.May(ctx, certificates.AccessOfRequester(c, &access)))
	})
	if r.allowed, err = ofRequester.any(references); err == nil && r.allowed == No {
		r.mayGrant, err = ofCaller(ctx, api).mayGrant(r.signer.Namespace)
	}
	return err
}

// objection returns the reason why the signer will refuse the request, or nil. The checks
// are in the signer's order.
func (r *referral) objection(username string) error {
	if r.allowed == No {
		return issuing.DeniedReference(username, r.signer)
	}
	return r.terms
}

// checks returns the signer's checks, in its order.
func (r *referral) checks(username string) []Check {
	var checks []Check
	switch r.allowed {
	case Yes:
		checks = append(checks, Check{"reference", Yes, fmt.Sprintf("user %q may refer to the Issuer %q in namespace %q", username, r.signer.Name, r.signer.Namespace)})
	case No:
		checks = append(checks, Check{"reference", No, issuing.DeniedReference(username, r.signer).Error()})
	case Unknown:
		checks = append(checks, Check{"reference", Unknown, mayNotCheckOthers})
	}
	terms := Check{"terms", Yes, "an issuer has no objection to the requested certificate"}
	if r.terms != nil {
		terms = Check{"terms", No, r.terms.Error()}
	}
	return append(append(checks, terms, r.issuer.check()), r.ordered.checks()...)
}

// referralSteps returns the steps that let a request to an issuer continue, or
// the next one succeed.
func (f *facts) referralSteps(p progress) []Step {
	r := f.referral
	if r == nil {
		return nil
	}
	var steps []Step
	if r.allowed == No {
		purpose := fmt.Sprintf("To let the user refer to the Issuer ('*' in place of %q is all of its namespace)", r.signer.Name)
		steps = append(steps, f.grantStep(r.mayGrant, purpose, grant{
			namespace: r.signer.Namespace, role: "reference-" + r.signer.Name, binding: r.binding(f.csr.Spec.Username),
			verb: "reference", signer: r.signer.Name,
			subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: f.csr.Spec.Username},
		}))
	}
	if p.open() {
		steps = append(steps, r.issuer.steps(f.Query, anotherRequest)...)
	}
	steps = append(steps, r.ordered.steps()...)
	switch {
	case p.state != certificates.Approved, len(steps) > 0, f.objection != nil:
		return steps
	case p.delay != "":
		return []Step{{Text: "The request continues automatically when the missing objects exist."}}
	default:
		return []Step{controllerStep(rights.AnswerCSRs)}
	}
}

// binding returns the name of the RoleBinding for one user. With one name for
// all users, each new binding would replace the last.
func (r *referral) binding(username string) string {
	return "reference-" + r.signer.Name + "-" + strings.NewReplacer("/", "-", "%", "-").Replace(username) // names never contain these
}
