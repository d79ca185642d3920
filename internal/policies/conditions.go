package policies

import (
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// The reasons of conditions that say that a policy has decided.
const (
	// ReasonApproved is the reason of the condition Approved of a
	// CertificateSigningRequest.
	ReasonApproved = "PolicyApproved"
	// ReasonOfRequests is the reason of the conditions Approved and Denied of a
	// CertificateRequest: by convention, who has decided.
	ReasonOfRequests = "policy.certplane.dev"
)

// ConditionsOfCSR returns the conditions of a CertificateSigningRequest.
func ConditionsOfCSR(csr *certificatesv1.CertificateSigningRequest) []quorum.Condition {
	var conditions []quorum.Condition
	for _, c := range csr.Status.Conditions {
		conditions = append(conditions, quorum.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	return conditions
}

// ConditionsOfRequest returns the conditions of a CertificateRequest.
func ConditionsOfRequest(cr *cmv1.CertificateRequest) []quorum.Condition {
	var conditions []quorum.Condition
	for _, c := range cr.Status.Conditions {
		conditions = append(conditions, quorum.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	return conditions
}

// ConditionsOf returns the conditions of a request that people can approve; nil of
// other objects.
func ConditionsOf(object client.Object) []quorum.Condition {
	switch object := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return ConditionsOfCSR(object)
	case *cmv1.CertificateRequest:
		return ConditionsOfRequest(object)
	}
	return nil
}

// ApprovedCSR says how a CertificateSigningRequest was approved.
func ApprovedCSR(csr *certificatesv1.CertificateSigningRequest) Approved {
	return approvedIn(ConditionsOfCSR(csr), ReasonApproved)
}

// ApprovedRequest says how a CertificateRequest was approved.
func ApprovedRequest(cr *cmv1.CertificateRequest) Approved {
	return approvedIn(ConditionsOfRequest(cr), ReasonOfRequests, crp.Reason)
}

func approvedIn(conditions []quorum.Condition, reasons ...string) Approved {
	approved := Approved{Conditions: conditions}
	for _, c := range conditions {
		approved.ByPolicy = approved.ByPolicy || c.Type == string(certificatesv1.CertificateApproved) && slices.Contains(reasons, c.Reason)
	}
	return approved
}
