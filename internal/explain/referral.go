package explain

import (
	"context"
	"fmt"
	"strings"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

// referral is what is known about a request that names an issuer of
// cert-manager.io as its signer.
type referral struct {
	who    certmanager.Signer
	issuer *IssuerFacts
	// allowed reports whether the requester may refer to the issuer. It is Open
	// if it is not checked: for ClusterIssuers, and for requests that have
	// their answer.
	allowed Result
	// mayGrant reports whether the caller may grant that permission.
	mayGrant Result
	// terms is the issuer's objection to what is requested, or nil.
	terms error
}

// findReferral finds the issuer that a request names, if it names one.
func (f *facts) findReferral(ctx context.Context, api Reader) error {
	who, isIssuer := certmanager.ParseSignerName(f.csr.Spec.SignerName)
	if !isIssuer {
		return nil
	}
	found, err := findIssuer(ctx, api, cmmeta.IssuerReference{Name: who.Name, Kind: who.Kind}, who.Namespace)
	if err != nil {
		return err
	}
	r := &referral{who: who, issuer: found, allowed: Open}
	r.terms = checkTerms(f.csr, found.selfSigned())
	if err := r.ask(ctx, api, f.csr); err != nil {
		return err
	}
	f.referral, f.objection = r, r.objection(f.csr.Spec.Username)
	return nil
}

// checkTerms returns an issuer's objection to a request, which is independent
// of the requester.
func checkTerms(c *csr, selfSigned bool) error {
	asked, err := issuing.RequestOf(request.FromCSR(c))
	if err != nil {
		return err
	}
	if selfSigned && c.Annotations[request.AnnotationKey] == "" {
		return selfsigned.NoKey(request.AnnotationKey)
	}
	return asked.Check()
}

// ask makes the same check as the signer: whether the requester may refer to
// the issuer.
func (r *referral) ask(ctx context.Context, api Reader, c *csr) error {
	switch v := certificates.Judge(c); {
	case v.State == certificates.Issued, v.State == certificates.Denied, v.State == certificates.Failed && v.Condition.Reason != issuing.ReasonDeniedReference:
		return nil
	}
	for _, right := range requests.References(r.who) {
		answer, err := may(ctx, api, certificates.AccessOfRequester(c, &right))
		if r.allowed = answer; err != nil || answer != No {
			return err
		}
	}
	if r.allowed != No {
		return nil
	}
	var err error
	r.mayGrant, err = mayGrant(ctx, api, r.who.Namespace)
	return err
}

// objection returns the reason for which the signer will refuse the request, or
// nil. The order is the signer's.
func (r *referral) objection(username string) error {
	if r.allowed == No {
		return issuing.DeniedReference(username, r.who)
	}
	return r.terms
}

// checks returns the signer's checks, in its order.
func (r *referral) checks(username string) []Check {
	var checks []Check
	switch r.allowed {
	case Yes:
		checks = append(checks, Check{"reference", Yes, fmt.Sprintf("user %q may refer to the Issuer %q in namespace %q", username, r.who.Name, r.who.Namespace)})
	case No:
		checks = append(checks, Check{"reference", No, issuing.DeniedReference(username, r.who).Error()})
	case Unknown:
		checks = append(checks, Check{"reference", Unknown, "you may not ask what others may do: it takes create on subjectaccessreviews"})
	}
	terms := Check{"terms", Yes, "an issuer has no objection to what is asked for"}
	if r.terms != nil {
		terms = Check{"terms", No, r.terms.Error()}
	}
	return append(checks, terms, r.issuer.check())
}

// referralSteps returns the steps that let a request to an issuer continue, or
// the next one succeed.
func (f *facts) referralSteps(state certificates.State) []Step {
	r := f.referral
	if r == nil {
		return nil
	}
	var steps []Step
	if r.allowed == No {
		purpose := fmt.Sprintf("To let the user refer to the Issuer ('*' in place of %q is all of its namespace)", r.who.Name)
		s := step(grants(r.mayGrant, purpose), f.typedBy(r.mayGrant).kubectl("apply", "-f", "-"))
		s.Input = fmt.Sprintf(referenceRights, "reference-"+r.who.Name, r.who.Namespace, r.who.Name, f.csr.Spec.Username, r.binding(f.csr.Spec.Username))
		steps = append(steps, s)
	}
	if state == certificates.Pending || state == certificates.Approved {
		steps = append(steps, r.issuer.steps(f.Query, anotherRequest)...)
	}
	switch {
	case state != certificates.Approved, len(steps) > 0, f.objection != nil:
		return steps
	case certificates.Condition(f.csr, certificates.ConditionDelayed) != nil:
		return []Step{{Text: "The request goes on by itself when what it waits for comes."}}
	default:
		return []Step{{Text: "An issuer answers at once where its controller runs: 'certplane serve', or 'certplane controllers' with the controller certificatesigningrequests."}}
	}
}

// binding returns the name of the RoleBinding for one user. With one name for
// all users, each new binding would replace the last.
func (r *referral) binding(username string) string {
	return "reference-" + r.who.Name + "-" + strings.NewReplacer("/", "-", "%", "-").Replace(username) // no name has these
}

const referenceRights = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: %[1]q
  namespace: %[2]q
rules:
  - apiGroups: [cert-manager.io]
    resources: [signers]
    verbs: [reference]
    resourceNames: [%[3]q]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: %[5]q
  namespace: %[2]q
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: %[1]q
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: User
    name: %[4]q
`
