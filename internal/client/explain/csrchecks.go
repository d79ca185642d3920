package explain

import (
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/approval"
)

func (f *facts) checks(p progress) []Check {
	checks := []Check{f.checkRequest()}
	if f.ofKubelet() {
		checks = append(checks, f.checkKubelet())
	}
	checks = append(checks, f.policies...)
	if len(f.known) > 0 {
		checks = append(checks, f.checkPermission())
	}
	approved := ""
	if c := certificates.Condition(f.csr, certificatesv1.CertificateApproved); c != nil {
		approved = conditionText(c.Reason, c.Message)
	}
	checks = append(checks, p.checkApproval(approved, f.mayApprove,
		fmt.Sprintf("update on certificatesigningrequests/approval and approve on signer %s", f.csr.Spec.SignerName)))
	if f.referral != nil {
		checks = append(checks, f.referral.checks(f.csr.Spec.Username)...)
	} else if certmanager.SignerForm(f.csr.Spec.SignerName) == "" {
		checks = append(checks, f.checkProfile())
	}
	if p.open() {
		checks = append(checks, f.checkSigner())
	}
	return append(checks, p.checkSigning())
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

// ofKubelet reports whether the request looks like a kubelet's.
func (f *facts) ofKubelet() bool {
	switch f.csr.Spec.SignerName {
	case certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName:
		return true
	}
	parsed, err := pki.ParseRequest(f.csr.Spec.Request)
	return strings.HasPrefix(f.csr.Spec.Username, nodeUser) || err == nil && strings.HasPrefix(parsed.Subject.CommonName, nodeUser)
}

// nodeUser begins the names of nodes' users.
const nodeUser = "system:node:"

func (f *facts) checkKubelet() Check {
	known, err := approval.Policy{}.Recognise(f.csr)
	if err != nil {
		return Check{"kubelet", No, err.Error()}
	}
	var names []string
	for _, r := range known {
		names = append(names, r.Name)
	}
	message := "a kubelet's request for its client certificate, recognised by " + strings.Join(names, " and ")
	if _, err := (approval.Policy{Strict: true}).Recognise(f.csr); err != nil {
		message += "; not where approval.strict is set: " + err.Error()
	}
	return Check{"kubelet", Yes, message}
}

func (f *facts) checkPermission() Check {
	switch answer := f.permission(); answer {
	case Yes:
		return Check{"permission", Yes, fmt.Sprintf("user %q may have such requests approved", f.csr.Spec.Username)}
	case No:
		return Check{"permission", No, (&approval.NotPermittedError{User: f.csr.Spec.Username, Recognisers: f.known}).Missing()}
	default:
		return Check{"permission", answer, mayNotCheckOthers}
	}
}

func (f *facts) checkProfile() Check {
	switch {
	case f.declared != nil && f.objection == nil:
		return Check{"profile", Yes, fmt.Sprintf("the Signer %s has no objection", f.declared.Name)}
	case f.declarersUnknown:
		return Check{"profile", Unknown, fmt.Sprintf("%s, one of which may declare the requirements of %s", mayNotListSigners, f.csr.Spec.SignerName)}
	case f.declared == nil && !profiled(f.csr.Spec.SignerName):
		return Check{"profile", Unknown, fmt.Sprintf("only the signer knows the requirements of %s", f.csr.Spec.SignerName)}
	case f.objection != nil:
		return Check{"profile", No, f.objection.Error()}
	default:
		return Check{"profile", Yes, fmt.Sprintf("%s has no objection, unless it is set to be stricter than Kubernetes", f.csr.Spec.SignerName)}
	}
}

// checkSigner names the accounts that may sign. Their permissions do not show
// whether they run.
func (f *facts) checkSigner() Check {
	name := f.csr.Spec.SignerName
	if form := certmanager.SignerForm(name); form != "" {
		return Check{"signer", No, malformedIssuer(name, form)}
	}
	if f.declared != nil {
		if ready, verdict := signerReadiness(f.declared); ready == No {
			return Check{"signer", No, verdict}
		}
	}
	switch {
	case f.signersUnknown:
		return Check{"signer", Unknown, mayNotCheckSigners}
	case len(f.signers) == 0:
		return Check{"signer", No, noSignerAccount(name)}
	default:
		return Check{"signer", Yes, "may sign: " + strings.Join(f.signers, ", ")}
	}
}
