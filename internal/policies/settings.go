package policies

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policies/journal"
)

// Settings is the stanza "policy".
type Settings struct {
	// install names the ready-made policies that are installed and kept up to
	// date:
	//
	//   - kubelet-serving approves the requests of kubelets for serving
	//     certificates (kubernetes.io/kubelet-serving): each only for the names
	//     and addresses of its own Node, within kubeletServing.
	//   - no-system-identities refuses client certificates of
	//     kubernetes.io/kube-apiserver-client for users and groups that begin
	//     with "system:".
	//
	// If a user changes such a policy, the change stays and the policy is no longer
	// updated; a deleted policy is created again. Removing a name from the list does
	// not delete its policy: delete it by hand. Default: none.
	Install []string `json:"install,omitempty"`
	// kubeletServing sets what kubelet-serving permits.
	KubeletServing KubeletServing `json:"kubeletServing,omitzero"`
	// createChecks refuses requests when they are created if a CertificatePolicy
	// certainly forbids them. Without it, they are stored, and denied by the
	// approver. The requests of kubelets are never refused: a kubelet would try
	// again and again. Default: true.
	CreateChecks bool `json:"createChecks"`
	// certificates sets what happens when a user writes a Certificate of
	// cert-manager.io whose request a policy would deny: Warn, Refuse or Off.
	// Default: Warn.
	Certificates CertificateChecks `json:"certificates"`
	// checkIssued refuses certificates that signers of other programs write into the
	// status of requests, if a policy forbids them. The checks are the same as for
	// certplane's own signers before their key is used. In clusters, they work while
	// the webhook answers. If the signer keeps writing such a certificate, as
	// kube-controller-manager's signer does, its request stays without one.
	// Default: false.
	CheckIssued bool `json:"checkIssued"`
	// patience is how long after the creation of a request its policies wait for
	// facts, such as the addresses of a node. After that the request is denied.
	// Default: 2m.
	Patience metav1.Duration `json:"patience"`
	// certificateControllers are the users whose requests can be for
	// Certificates of cert-manager.io (match.origins of policies), in addition to
	// certplane's own. Default: cert-manager's service account,
	// system:serviceaccount:cert-manager:cert-manager.
	CertificateControllers []string `json:"certificateControllers"`
	// certificateRequestPolicies serves the CertificateRequestPolicies of
	// approver-policy (policy.cert-manager.io) and enforces them. From then on
	// CertificateRequests are approved only by policies and by people: the
	// controller certificaterequests-approver leaves those that no policy is
	// about. Default: false.
	CertificateRequestPolicies bool `json:"certificateRequestPolicies"`
	// decisionLog is a file with each decision and its input.
	DecisionLog journal.Settings `json:"decisionLog"`
}

// CertificateChecks is what happens to Certificates whose request a policy would deny.
type CertificateChecks string

// What happens to Certificates.
const (
	CertificatesWarn   CertificateChecks = "Warn"
	CertificatesRefuse CertificateChecks = "Refuse"
	CertificatesOff    CertificateChecks = "Off"
)

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		CreateChecks: true, Certificates: CertificatesWarn, Patience: metav1.Duration{Duration: 2 * time.Minute},
		CertificateControllers: []string{"system:serviceaccount:cert-manager:cert-manager"},
		DecisionLog:            journal.DefaultSettings(),
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	switch {
	case s.Patience.Duration <= 0:
		return fmt.Errorf("policy.patience: %v must be more than zero", s.Patience.Duration)
	case s.Certificates != CertificatesWarn && s.Certificates != CertificatesRefuse && s.Certificates != CertificatesOff:
		return fmt.Errorf("policy.certificates: %q must be Warn, Refuse or Off", s.Certificates)
	}
	for i, name := range s.CertificateControllers {
		if name == "" {
			return fmt.Errorf("policy.certificateControllers[%d]: must be a username", i)
		}
	}
	if _, err := s.Installed(); err != nil {
		return err
	}
	return s.DecisionLog.Validate()
}
