package explain

import (
	"fmt"
	"slices"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/rights"
)

func (f *facts) steps(p progress) []Step {
	switch p.state {
	case certificates.Denied, certificates.Failed:
		final := Step{Text: "This is final. After fixing the cause, submit a new request under another name."}
		return append(f.referralSteps(p), final)
	case certificates.Issued:
		return []Step{f.fetchStep(signingRequests, f.csr)}
	case certificates.Approved:
		return f.stepsAfterApproval(p)
	default:
		return f.stepsBeforeApproval(p)
	}
}

func (f *facts) stepsAfterApproval(p progress) []Step {
	switch {
	case f.referral != nil:
		return f.referralSteps(p)
	case p.delay != "" && f.declared != nil:
		return []Step{step("The signer keeps retrying. To see why it cannot sign:", f.Certplane("explain", "signer", f.declared.Name))}
	case p.delay != "":
		return []Step{{Text: "The signer keeps retrying. Its log shows why it cannot sign."}}
	case f.objection != nil:
		return nil
	case profiled(f.csr.Spec.SignerName):
		return []Step{{Text: "A signer answers immediately where one runs: 'certplane serve', or 'certplane controllers' with a CA for this signer."}}
	default:
		return []Step{{Text: "Check the signer's name, and that the program that signs for it runs."}}
	}
}

func (f *facts) stepsBeforeApproval(p progress) []Step {
	var steps []Step
	switch f.permission() {
	case No:
		steps = append(steps, f.permit())
	case Yes:
		steps = append(steps, Step{Text: fmt.Sprintf("An approver acts immediately where one runs: 'certplane serve' or 'certplane controllers', unless %s is switched off.", rights.Approve.Name)})
	}
	typed := f.typedBy(f.mayApprove)
	decide := decideStep(f.mayApprove, typed.CertplaneOn([]string{f.csr.Name}, "approve"), typed.CertplaneOn([]string{f.csr.Name}, "deny"))
	return append(append(steps, decide), f.referralSteps(p)...)
}

// permit returns the step that binds the narrowest sufficient ClusterRole.
func (f *facts) permit() Step {
	recogniser := f.known[0]
	return step(grantText(f.mayGrant, "To have such requests approved without a person"), f.typedBy(f.mayGrant).kubectl(
		"create", "clusterrolebinding", "approve-"+recogniser.Name, "--clusterrole="+recogniser.Role(), f.subject(),
	))
}

// subject returns the flag for the subject of a binding: the group for nodes
// and new nodes, and the user for others.
func (f *facts) subject() string {
	for _, group := range []string{"system:nodes", bootstrapapi.BootstrapDefaultGroup} {
		if slices.Contains(f.csr.Spec.Groups, group) {
			return "--group=" + group
		}
	}
	return "--user=" + f.csr.Spec.Username
}
