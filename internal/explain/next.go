package explain

import (
	"slices"

	"github.com/certplane/certplane/internal/api/certificates"
)

// next returns what can be done about a request.
func (f *facts) next(v certificates.Verdict) []Step {
	switch v.State {
	case certificates.Denied, certificates.Failed:
		final := Step{Text: "This is final. Once the reason is gone, submit a new request under another name."}
		return append(f.referralSteps(v.State), final)
	case certificates.Issued:
		return []Step{step("To fetch the certificate, in base64:", f.kubectl("get", "csr", f.csr.Name, "-o", "jsonpath={.status.certificate}"))}
	case certificates.Approved:
		return f.nextAfterApproval()
	default:
		return f.nextBeforeApproval()
	}
}

func (f *facts) nextAfterApproval() []Step {
	switch {
	case f.referral != nil:
		return f.referralSteps(certificates.Approved)
	case certificates.Condition(f.csr, certificates.ConditionDelayed) != nil:
		return []Step{{Text: "The signer keeps trying. Why it cannot sign is in its log."}}
	case f.objection != nil:
		return nil
	case profiled(f.csr.Spec.SignerName):
		return []Step{{Text: "A signer answers at once where one runs: 'certplane serve', or 'certplane controllers' with a CA for this signer."}}
	default:
		return []Step{{Text: "Is the signer's name right, and does the program that signs for it run?"}}
	}
}

func (f *facts) nextBeforeApproval() []Step {
	var steps []Step
	if f.permission() == No {
		steps = append(steps, f.permit())
	}
	if f.permission() == Yes {
		steps = append(steps, Step{Text: "An approver acts at once where one runs: 'certplane serve' or 'certplane controllers', unless approve is switched off."})
	}
	typed := f.typedBy(f.mayApprove)
	decide := step("To decide about this request:",
		typed.kubectl("certificate", "approve", f.csr.Name), typed.kubectl("certificate", "deny", f.csr.Name))
	if f.mayApprove == No {
		decide.Text = "Somebody with the right to decides about this request:"
	}
	return append(append(steps, decide), f.referralSteps(certificates.Pending)...)
}

// permit returns the step that binds the narrowest sufficient ClusterRole.
func (f *facts) permit() Step {
	recogniser := f.known[0]
	return step(grants(f.mayGrant, "To have such requests approved without a person"), f.typedBy(f.mayGrant).kubectl(
		"create", "clusterrolebinding", "approve-"+recogniser.Name, "--clusterrole="+recogniser.Role(), f.subject(),
	))
}

// subject returns the flag for the subject of a binding: the group for nodes
// and new nodes, and the user for others.
func (f *facts) subject() string {
	for _, group := range []string{"system:nodes", "system:bootstrappers"} {
		if slices.Contains(f.csr.Spec.Groups, group) {
			return "--group=" + group
		}
	}
	return "--user=" + f.csr.Spec.Username
}

// grants returns the text before commands that grant a permission.
func grants(mayCaller Result, purpose string) string {
	if mayCaller == No {
		return purpose + ", for somebody who may grant that:"
	}
	return purpose + ":"
}

func step(text string, commands ...[]string) Step { return Step{Text: text, Commands: commands} }
