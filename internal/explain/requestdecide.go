package explain

import (
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// saidOf returns the text of a condition of the request.
func (f *RequestFacts) saidOf(kind cmv1.CertificateRequestConditionType) string {
	c := certmanager.RequestCondition(f.Request, kind)
	if c == nil {
		return "no reason given"
	}
	return said(c.Reason, c.Message)
}

// since returns when a condition last changed; the request's creation, if that
// is not known.
func (f *RequestFacts) since(kind cmv1.CertificateRequestConditionType) time.Time {
	if c := certmanager.RequestCondition(f.Request, kind); c != nil && c.LastTransitionTime != nil {
		return c.LastTransitionTime.Time
	}
	return f.Request.CreationTimestamp.Time
}

// verdict returns the rest of a sentence that begins with the request's name.
func (f *RequestFacts) verdict(state certificates.State, cert *Certificate) string {
	switch state {
	case certificates.Denied:
		return "was denied: " + f.saidOf(cmv1.CertificateRequestConditionDenied)
	case invalid:
		return "is invalid, and nobody signs it: " + f.saidOf(cmv1.CertificateRequestConditionInvalidRequest)
	case certificates.Failed:
		return "failed at its issuer: " + f.readyMessage()
	case certificates.Issued:
		return f.issued(cert)
	case certificates.Approved:
		return f.outlook(state, f.checks(state)).unsigned()
	default:
		return f.outlook(state, f.checks(state)).undecided()
	}
}

func (f *RequestFacts) readyMessage() string {
	if ready := certmanager.RequestCondition(f.Request, cmv1.CertificateRequestConditionReady); ready != nil && ready.Message != "" {
		return ready.Message
	}
	return "no reason given"
}

// outlook returns what the request waits for; deciding are the checks.
func (f *RequestFacts) outlook(state certificates.State, deciding []Check) outlook {
	o := outlook{checks: deciding, words: words{
		state: "is approved", signer: "issuer", tells: " and waits: ", lacking: "the approver", silent: "its controller",
	}}
	if !certmanager.IsBuiltIn(f.Request.Spec.IssuerRef) {
		o.silent = "the program that signs for issuers of the group " + certmanager.IssuerGroup(f.Request.Spec.IssuerRef)
	}
	began := f.Request.CreationTimestamp.Time
	if state == certificates.Approved {
		began = f.since(cmv1.CertificateRequestConditionApproved)
	}
	o.waited = f.Now.Sub(began)
	if certmanager.ReadyReason(f.Request) != "" {
		o.told = f.readyMessage()
	}
	return o
}

// checks returns the decision of each part, in the order in which the parts
// decide.
func (f *RequestFacts) checks(state certificates.State) []Check {
	checks := []Check{f.checkRequest(), f.checkApproval(state)}
	if state == certificates.Pending && len(f.names()) > 0 {
		checks = append(checks, f.checkApprover()...)
	}
	checks = append(checks, f.issuer.check())
	if f.issuer.selfSigned() {
		checks = append(checks, f.checkKey())
	}
	return append(checks, f.checkSigning(state))
}

// further returns the checks that decide nothing.
func (f *RequestFacts) further() []Check {
	var checks []Check
	if f.Events.Unknown {
		checks = append(checks, Check{"events", Unknown, "you may not list events in the namespace " + f.Request.Namespace + ", where controllers tell of requests"})
	}
	return checks
}

func (f *RequestFacts) checkRequest() Check {
	if err := certmanager.CheckRequest(&f.Request.Spec); err != nil {
		return Check{"request", No, err.Error()}
	}
	return Check{"request", Yes, "can be read, is signed with its own key, and asks for what the other fields say"}
}

func (f *RequestFacts) checkApproval(state certificates.State) Check {
	switch {
	case state == certificates.Denied:
		return Check{"approval", No, f.saidOf(cmv1.CertificateRequestConditionDenied)}
	case certmanager.RequestIs(f.Request, cmv1.CertificateRequestConditionApproved):
		return Check{"approval", Yes, f.saidOf(cmv1.CertificateRequestConditionApproved)}
	case state == certificates.Pending && len(f.names()) == 0:
		return Check{"approval", No, f.issuer.check().Message}
	case f.mayApprove == Yes:
		return Check{"approval", Open, "nobody has decided; you may"}
	case f.mayApprove == No:
		return Check{"approval", Open, "nobody has decided; you may not, it takes " + f.approvalRights()}
	default:
		return Check{"approval", Open, "nobody has decided"}
	}
}

func (f *RequestFacts) approvalRights() string {
	return fmt.Sprintf("update on certificaterequests/status in the namespace %s and, in the whole cluster, approve on signers.%s named %s",
		f.Request.Namespace, certmanager.Group, strings.Join(f.names(), " or "))
}

// checkApprover checks whether there is an approver that acts without a person,
// and whether it may approve the request. Permissions do not show whether it
// runs.
func (f *RequestFacts) checkApprover() []Check {
	switch {
	case f.approversUnknown:
		return []Check{{"permission", Unknown, "you may not ask who approves without a person"}}
	case len(f.approvers) > 0:
		return []Check{{"permission", Yes, "may approve without a person, where it runs: " + strings.Join(f.approvers, ", ")}}
	case f.approver != "":
		return []Check{{"permission", No, fmt.Sprintf("%s may not approve: it lacks approve on signers.%s named %s",
			f.approver, certmanager.Group, strings.Join(f.names(), " or "))}}
	default:
		return []Check{{"approver", No, "no approver of certplane or cert-manager is set up here"}}
	}
}

func (f *RequestFacts) checkKey() Check {
	const annotation = cmv1.CertificateRequestPrivateKeyAnnotationKey
	switch name := f.keySecret(); {
	case name == "":
		return Check{"key", No, "a SelfSigned issuer needs the name of the Secret with the request's key in the annotation " + annotation}
	case f.key == No:
		return Check{"key", No, fmt.Sprintf("there is no Secret %s in the namespace %s, where the request's key should be", name, f.Request.Namespace)}
	case f.key == Unknown:
		return Check{"key", Unknown, "you may not get secrets in the namespace " + f.Request.Namespace}
	default:
		return Check{"key", Yes, "should be in Secret " + name + ", which exists"}
	}
}

func (f *RequestFacts) checkSigning(state certificates.State) Check {
	switch {
	case state == certificates.Issued:
		return Check{"signing", Yes, "signed"}
	case state == certificates.Failed:
		return Check{"signing", No, f.readyMessage()}
	case state == certificates.Denied:
		return Check{"signing", No, "denied requests are not signed"}
	case state == invalid:
		return Check{"signing", No, "invalid requests are left alone"}
	case certmanager.ReadyReason(f.Request) != "":
		return Check{"signing", Open, f.readyMessage()}
	case state == certificates.Approved:
		return Check{"signing", Open, "not signed yet"}
	default:
		return Check{"signing", Open, "waits for approval"}
	}
}

// next returns what can be done about a request.
func (f *RequestFacts) next(state certificates.State) []Step {
	switch state {
	case certificates.Denied, certificates.Failed, invalid:
		return []Step{f.again()}
	case certificates.Issued:
		return []Step{step("To fetch the certificate, in base64:", f.kubectl(
			"get", "certificaterequests."+certmanager.Group, "-n", f.Request.Namespace, f.Request.Name, "-o", "jsonpath={.status.certificate}"))}
	case certificates.Approved:
		return f.nextAfterApproval()
	default:
		return append(f.nextBeforeApproval(), f.issuer.steps(f.Query, f.otherwise)...)
	}
}

// again returns how to request the certificate again.
func (f *RequestFacts) again() Step {
	owner := ownerOf(f.Request)
	if owner == "" {
		return Step{Text: "This is final. Once the reason is gone, create a new request under another name."}
	}
	return step("This is final. The Certificate makes another request after a while; once the reason is gone, to have that done at once:",
		f.Certplane("renew", "-n", f.Request.Namespace, owner), f.Certplane("explain", "certificate", "-n", f.Request.Namespace, owner))
}

func (f *RequestFacts) nextAfterApproval() []Step {
	steps := f.issuer.steps(f.Query, f.otherwise)
	switch name := f.keySecret(); {
	case f.key == No:
		steps = append(steps, step("Put the request's private key into the Secret; the request goes on by itself:",
			f.kubectl("create", "secret", "generic", "-n", f.Request.Namespace, name, "--from-file=tls.key=FILE")))
	case f.issuer.selfSigned() && name != "" && certmanager.ReadyReason(f.Request) != "":
		steps = append(steps, Step{Text: fmt.Sprintf("The request's private key belongs into tls.key of Secret %s in the namespace %s; once it is there, the request goes on by itself.",
			name, f.Request.Namespace)})
	}
	if len(steps) > 0 || certmanager.ReadyReason(f.Request) != "" {
		return steps
	}
	if !certmanager.IsBuiltIn(f.Request.Spec.IssuerRef) {
		return []Step{{Text: fmt.Sprintf("Does the program that signs for issuers of the group %s run? Why it does not answer is in its log.", certmanager.IssuerGroup(f.Request.Spec.IssuerRef))}}
	}
	return []Step{{Text: "An issuer answers at once where its controller runs: 'certplane serve', or 'certplane controllers' with the controller certificaterequests."}}
}

func (f *RequestFacts) nextBeforeApproval() []Step {
	if len(f.names()) == 0 {
		return nil
	}
	var steps []Step
	if len(f.approvers) > 0 {
		steps = append(steps, Step{Text: "The approver acts at once where it runs: 'certplane serve' or 'certplane controllers', unless certificaterequests-approver is switched off."})
	}
	typed := f.typedBy(f.mayApprove)
	decide := step("To decide about this request:",
		typed.Certplane("approve", "-n", f.Request.Namespace, f.Request.Name), typed.Certplane("deny", "-n", f.Request.Namespace, f.Request.Name))
	if f.mayApprove == No {
		decide.Text = "Somebody with the right to decides about this request:"
	}
	if steps = append(steps, decide); len(f.approvers) == 0 && f.approver != "" {
		steps = append(steps, f.permit())
	}
	return steps
}

// permit returns the step that permits the approver to approve for all issuers
// of the kind.
func (f *RequestFacts) permit() Step {
	namespace, account, _ := strings.Cut(f.approver, "/")
	resource := f.issuer.resource.Name + "." + certmanager.IssuerGroup(f.Request.Spec.IssuerRef)
	s := step(grants(f.mayGrant, "To have requests to such issuers approved without a person"), f.typedBy(f.mayGrant).kubectl("apply", "-f", "-"))
	s.Input = fmt.Sprintf(approverRights, "approve-"+resource, f.names()[0], account, namespace)
	return s
}

const approverRights = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: %[1]s
rules:
  - apiGroups: [cert-manager.io]
    resources: [signers]
    verbs: [approve]
    resourceNames: ["%[2]s"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: %[1]s
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: %[1]s
subjects:
  - kind: ServiceAccount
    name: %[3]s
    namespace: %[4]s
`
