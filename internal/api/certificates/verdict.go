package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
)

// State is the progress of a request.
type State string

// States of a request. Issued, Denied and Failed are final.
const (
	Pending  State = "Pending"
	Approved State = "Approved"
	Issued   State = "Issued"
	Denied   State = "Denied"
	Failed   State = "Failed"
)

// Verdict is a request's state and the condition that causes it, if any.
type Verdict struct {
	State     State
	Condition certificatesv1.CertificateSigningRequestCondition
}

// Judge evaluates a request's status as clients of Kubernetes do: only the
// presence of a condition counts, and a certificate counts once the request is
// approved.
func Judge(csr *certificatesv1.CertificateSigningRequest) Verdict {
	v := Verdict{State: Pending}
	for _, c := range csr.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return Verdict{Denied, c}
		case certificatesv1.CertificateFailed:
			return Verdict{Failed, c}
		case certificatesv1.CertificateApproved:
			v = Verdict{Approved, c}
		}
	}
	if v.State == Approved && len(csr.Status.Certificate) > 0 {
		v.State = Issued
	}
	return v
}
