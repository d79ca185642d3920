package explain

import (
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/rights"
)

func (f *RequestFacts) checks(p progress) []Check {
	checks := append(append([]Check{f.checkRequest()}, f.policies...), f.checkApproval(p))
	if p.state == certificates.Pending && len(f.names()) > 0 {
		checks = append(checks, f.checkApprover())
	}
	checks = append(checks, f.issuer.check())
	if f.issuer.selfSigned() {
		checks = append(checks, f.checkKey())
	}
	if p.state == certificates.Approved || p.state == certificates.Failed {
		checks = append(checks, f.ordered.checks()...)
	}
	return append(checks, p.checkSigning())
}

func (f *RequestFacts) checkRequest() Check {
	if err := certmanager.CheckNamedRequest(f.Request); err != nil {
		return Check{"request", No, err.Error()}
	}
	return Check{"request", Yes, "can be read, is signed with its own key, and matches the other fields"}
}

func (f *RequestFacts) checkApproval(p progress) Check {
	if p.state == certificates.Pending && len(f.names()) == 0 {
		return Check{"approval", No, f.issuer.check().Message}
	}
	return p.checkApproval(f.conditionTextOf(cmv1.CertificateRequestConditionApproved), f.mayApprove, fmt.Sprintf(
		"update on certificaterequests/status in the namespace %s and, in the whole cluster, %s", f.Request.Namespace, f.approveSigners()))
}

// checkApprover checks whether there is an approver that acts without a person,
// and whether it may approve the request. Permissions do not show whether it
// runs.
func (f *RequestFacts) checkApprover() Check {
	switch {
	case f.approversUnknown:
		return Check{"permission", Unknown, "you may not check which accounts approve without a person"}
	case len(f.approvers) > 0:
		return Check{"permission", Yes, "may approve without a person, where it runs: " + strings.Join(f.approvers, ", ")}
	case f.approver != "":
		return Check{"permission", No, fmt.Sprintf("%s may not approve: it lacks %s", f.approver, f.approveSigners())}
	default:
		return Check{"approver", No, "no approver of certplane or cert-manager is set up here"}
	}
}

func (f *RequestFacts) checkKey() Check {
	if f.key == nil {
		return Check{"key", No, "a SelfSigned issuer needs the name of the Secret with the request's key in the annotation " + cmv1.CertificateRequestPrivateKeyAnnotationKey}
	}
	return f.key.check("key")
}

func (f *RequestFacts) steps(p progress) []Step {
	switch p.state {
	case certificates.Denied, certificates.Failed, invalid:
		return append([]Step{f.requestAgain()}, f.ordered.steps()...)
	case certificates.Issued:
		return []Step{f.fetchStep(certificateRequests, f.Request)}
	case certificates.Approved:
		return f.stepsAfterApproval(p)
	default:
		return append(f.issuer.steps(f.Query, f.otherwise), f.stepsBeforeApproval()...)
	}
}

// requestAgain returns how to request the certificate again.
func (f *RequestFacts) requestAgain() Step {
	owner := ownerOf(f.Request)
	if owner == "" {
		return Step{Text: "This is final. After fixing the cause, create a new request under another name."}
	}
	return step("This is final. The Certificate makes another request after a while. After fixing the cause, retry immediately with:",
		f.Certplane("renew", "-n", f.Request.Namespace, owner), f.explainCommand(issuedCertificates, client.ObjectKey{Namespace: f.Request.Namespace, Name: owner}))
}

func (f *RequestFacts) stepsAfterApproval(p progress) []Step {
	steps := f.issuer.steps(f.Query, f.otherwise)
	if f.key != nil {
		steps = append(steps, f.key.steps(f.Query, p.delay != "")...)
	}
	steps = append(steps, f.ordered.steps()...)
	group := f.issuer.Ref.Group
	switch {
	case len(steps) > 0, p.delay != "":
		return steps
	case group != certmanager.Group:
		return []Step{{Text: fmt.Sprintf("Check that the program that signs for issuers of the group %s runs. Its log shows why it does not answer.", group)}}
	default:
		return []Step{controllerStep(rights.AnswerRequests)}
	}
}

func (f *RequestFacts) stepsBeforeApproval() []Step {
	if len(f.names()) == 0 {
		return nil
	}
	key, typed := client.ObjectKeyFromObject(f.Request), f.typedBy(f.mayApprove)
	steps := []Step{decideStep(f.mayApprove,
		typed.Certplane("approve", "-n", key.Namespace, key.Name), typed.Certplane("deny", "-n", key.Namespace, key.Name))}
	switch {
	case hasRequestPolicies(f.policies):
		steps = append(steps, Step{Text: "Without a person, it is approved once a CertificateRequestPolicy applies to it and permits it: the checks show what each lacks."})
	case len(f.approvers) > 0:
		steps = append(steps, Step{Text: fmt.Sprintf(
			"The approver acts immediately where it runs: 'certplane serve' or 'certplane controllers', unless %s is switched off.", rights.ApproveRequests.Name)})
	case f.approver != "":
		steps = append(steps, f.permit())
	}
	return steps
}

// permit returns the step that permits the approver to approve for all issuers
// of the kind.
func (f *RequestFacts) permit() Step {
	namespace, account, _ := strings.Cut(f.approver, "/")
	name := "approve-" + f.issuer.resourceName()
	return f.grantStep(f.mayGrant, "To have requests to such issuers approved without a person", grant{
		role: name, binding: name, verb: "approve", signer: f.names()[0],
		subject: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account},
	})
}
