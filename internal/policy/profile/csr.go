package profile

import (
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// FactsOfCSR returns all facts about a CertificateSigningRequest: they are in
// the request.
func FactsOfCSR(csr *certificatesv1.CertificateSigningRequest) (Facts, error) {
	parsed, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return Facts{}, fmt.Errorf("parsing the certificate request: %w", err)
	}
	f := Facts{
		Kind: v1alpha1.CertificateSigningRequests, Name: csr.Name, UID: string(csr.UID),
		Request: parsed, Key: parsed.PublicKey,
		Requester: Requester{Username: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: map[string][]string{}},
	}
	for _, usage := range csr.Spec.Usages {
		f.Usages = append(f.Usages, string(usage))
	}
	for key, values := range csr.Spec.Extra {
		f.Requester.Extra[key] = values
	}
	if seconds := csr.Spec.ExpirationSeconds; seconds != nil {
		duration := time.Duration(*seconds) * time.Second
		f.Duration = &duration
	}
	return f, nil
}
