package request

import (
	certificatesv1 "k8s.io/api/certificates/v1"
)

// state is how far a request has come.
type state int

const (
	pending state = iota
	approved
	issued
	denied
	failed
)

// verdict is a request's state and, for a refusal, the condition that says why.
type verdict struct {
	state     state
	condition certificatesv1.CertificateSigningRequestCondition
}

// judge reads a request's status as clients of Kubernetes do: the mere
// presence of a condition counts, and a certificate counts once approved.
func judge(csr *certificatesv1.CertificateSigningRequest) verdict {
	v := verdict{state: pending}
	for _, c := range csr.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return verdict{denied, c}
		case certificatesv1.CertificateFailed:
			return verdict{failed, c}
		case certificatesv1.CertificateApproved:
			v = verdict{approved, c}
		}
	}
	if v.state == approved && len(csr.Status.Certificate) > 0 {
		v.state = issued
	}
	return v
}
