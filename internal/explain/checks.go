package explain

import (
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/approval"
)

type condition = certificatesv1.CertificateSigningRequestCondition

// checks returns the decision of each part, in the order in which the parts
// decide.
func (f *facts) checks(v certificates.Verdict) []Check {
	checks := []Check{f.checkRequest(), f.checkPolicy()}
	if len(f.known) > 0 {
		checks = append(checks, f.checkPermission())
	}
	checks = append(checks, f.checkApproval(v))
	if f.referral != nil {
		checks = append(checks, f.referral.checks(f.csr.Spec.Username)...)
	} else if certmanager.SignerForm(f.csr.Spec.SignerName) == "" {
		checks = append(checks, f.checkProfile())
	}
	if v.State == certificates.Pending || v.State == certificates.Approved {
		checks = append(checks, f.checkSigner())
	}
	return append(checks, f.checkSigning(v))
}

// further returns the checks that decide nothing: what the caller may not know,
// and what other controllers say about the request.
func (f *facts) further() []Check {
	var checks []Check
	if f.events.Unknown {
		checks = append(checks, Check{"events", Unknown, "you may not list events in namespace default, where controllers tell of requests"})
	}
	for _, c := range f.csr.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
		default:
			checks = append(checks, Check{string(c.Type), statusOf(c), because(c)})
		}
	}
	return checks
}

func statusOf(c condition) Result {
	switch c.Status {
	case corev1.ConditionTrue:
		return Yes
	case corev1.ConditionFalse:
		return No
	}
	return Unknown
}

func (f *facts) checkRequest() Check {
	parsed, err := pki.ParseRequest(f.csr.Spec.Request)
	if err == nil {
		err = pki.VerifyRequest(parsed.CertificateRequest)
	}
	if err != nil {
		return Check{"request", No, err.Error()}
	}
	return Check{"request", Yes, "can be read, and is signed with its own key"}
}

func (f *facts) checkPolicy() Check {
	known, err := approval.Policy{}.Recognise(f.csr)
	if err != nil {
		return Check{"policy", No, err.Error()}
	}
	message := "a kubelet's request for its client certificate, recognised by " + strings.Join(names(known), " and ")
	if _, err := (approval.Policy{Strict: true}).Recognise(f.csr); err != nil {
		message += "; not where approval.strict is set: " + err.Error()
	}
	return Check{"policy", Yes, message}
}

func names(known []approval.Recogniser) []string {
	var names []string
	for _, r := range known {
		names = append(names, r.Name)
	}
	return names
}

func (f *facts) checkPermission() Check {
	switch answer := f.permission(); answer {
	case Yes:
		return Check{"permission", Yes, fmt.Sprintf("user %q may have such requests approved", f.csr.Spec.Username)}
	case No:
		return Check{"permission", No, f.notPermitted().Missing()}
	default:
		return Check{"permission", answer, "you may not ask what others may do: it takes create on subjectaccessreviews"}
	}
}

func (f *facts) checkApproval(v certificates.Verdict) Check {
	decision := certificates.Condition(f.csr, certificatesv1.CertificateApproved)
	switch {
	case v.State == certificates.Denied:
		return Check{"approval", No, because(v.Condition)}
	case decision != nil:
		return Check{"approval", Yes, because(*decision)}
	case f.mayApprove == Yes:
		return Check{"approval", Open, "nobody has decided yet; you may"}
	case f.mayApprove == No:
		return Check{"approval", Open, "nobody has decided yet; you may not, it takes " + f.approvalRights()}
	default:
		return Check{"approval", Open, "nobody has decided yet"}
	}
}

func (f *facts) approvalRights() string {
	return fmt.Sprintf("update on certificatesigningrequests/approval and approve on signer %s", f.csr.Spec.SignerName)
}

func (f *facts) checkProfile() Check {
	switch {
	case f.declared != nil && f.objection == nil:
		return Check{"profile", Yes, fmt.Sprintf("the Signer %s has no objection", f.declared.Name)}
	case f.declarersUnknown:
		return Check{"profile", Unknown, fmt.Sprintf("you may not list signers.%s, one of which may say what %s demands", v1alpha1.GroupName, f.csr.Spec.SignerName)}
	case f.declared == nil && !profiled(f.csr.Spec.SignerName):
		return Check{"profile", Unknown, fmt.Sprintf("what %s demands is known to that signer alone", f.csr.Spec.SignerName)}
	case f.objection != nil:
		return Check{"profile", No, f.objection.Error()}
	default:
		return Check{"profile", Yes, fmt.Sprintf("%s has no objection, unless it is set to be stricter than Kubernetes", f.csr.Spec.SignerName)}
	}
}

func (f *facts) checkSigning(v certificates.Verdict) Check {
	switch v.State {
	case certificates.Issued:
		return Check{"signing", Yes, "signed"}
	case certificates.Failed:
		return Check{"signing", No, because(v.Condition)}
	case certificates.Denied:
		return Check{"signing", No, "denied requests are not signed"}
	case certificates.Approved:
		return Check{"signing", Open, "not signed yet"}
	default:
		return Check{"signing", Open, "waits for approval"}
	}
}

// checkSigner names the accounts that may sign. Their permissions do not show
// whether they run.
func (f *facts) checkSigner() Check {
	name := f.csr.Spec.SignerName
	if form := certmanager.SignerForm(name); form != "" {
		return Check{"signer", No, fmt.Sprintf("nobody signs for %s: issuers have names of the form %s", name, form)}
	}
	if f.declared != nil {
		if ready, verdict := judge(f.declared); ready == No {
			return Check{"signer", No, verdict}
		}
	}
	switch {
	case f.signersUnknown:
		return Check{"signer", Unknown, "you may not ask who may sign"}
	case len(f.signers) == 0:
		return Check{"signer", No, fmt.Sprintf("no service account of certplane or Kubernetes may sign for %s: another program has to", name)}
	default:
		return Check{"signer", Yes, "may sign: " + strings.Join(f.signers, ", ")}
	}
}
