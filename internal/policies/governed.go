package policies

import (
	"strconv"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/names"
)

// Governed selects the approvals for which a webhook is called: approvals for signers
// that enforced policies apply to.
type Governed struct {
	Rules []admissionregistrationv1.RuleWithOperations
	// Condition is a CEL expression that is true for these approvals.
	Condition string
}

// maxPatterns is how many patterns of signers an expression has; with more, it is
// true of all.
const maxPatterns = 100

// Governed returns the approvals that policies apply to. It returns false while the
// policies are not known.
func (p *Policies) Governed() (Governed, bool) {
	current := p.source.current.Load()
	if current == nil {
		return Governed{}, false
	}
	return governed(current.set.Governed(v1alpha1.CertificateSigningRequests),
		current.requestPolicies != nil || len(current.set.Governed(v1alpha1.CertificateRequests)) > 0), true
}

// governed returns the approvals of CertificateSigningRequests for signers, and
// with requests those of all CertificateRequests: cert-manager.io has a webhook
// that has to answer for them in any case.
func governed(signers []string, requests bool) Governed {
	g := Governed{Rules: []admissionregistrationv1.RuleWithOperations{}, Condition: "false"}
	rule := func(group, resource string) {
		g.Rules = append(g.Rules, admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}, Scope: ptr.To(admissionregistrationv1.AllScopes),
			},
		})
	}
	if len(signers) > 0 {
		rule(certificatesv1.GroupName, "certificatesigningrequests/approval")
		g.Condition = ofSigners(signers)
	}
	if requests {
		rule(cmv1.SchemeGroupVersion.Group, "certificaterequests/status")
		g.Condition = "request.resource.group != '" + certificatesv1.GroupName + "' || " + g.Condition
	}
	return g
}

// ofSigners returns an expression that is true of requests for signers. The first
// certificates of kubelets are among them only if a policy names their signer: the
// webhook may run on those nodes.
func ofSigners(signers []string) string {
	const kubelets = certificatesv1.KubeAPIServerClientKubeletSignerName
	others := "object.spec.signerName != '" + kubelets + "'"
	var alternatives []string
	for _, signer := range signers {
		glob, err := names.ParseSigner(signer)
		if err != nil || signer == certpolicy.AllSigners || len(signers) > maxPatterns {
			return "(" + others + ")"
		}
		if signer == kubelets {
			others = "true"
		}
		alternatives = append(alternatives, glob.Regexp())
	}
	return "(" + others + " && object.spec.signerName.matches(" + strconv.Quote("^("+strings.Join(alternatives, "|")+")$") + "))"
}
