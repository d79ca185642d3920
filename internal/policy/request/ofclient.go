package request

import (
	"errors"
	"fmt"
	"maps"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// IsForOrder reports whether a request has a name and a requester like the requests for
// orders of ACME clients: see certmanager.IsForOrder.
func (r Request) IsForOrder() bool {
	return r.Kind != v1alpha1.PodCertificateRequests && certmanager.IsForOrder(r.Requester.Username, r.Name)
}

// ForSigner returns the request as signers see it. An ACME client chooses the names, a
// common name that is one of them, and the key; everything else comes from the profile
// of its endpoint: the content of its PKCS#10 request is reduced to these. PEM stays as it
// is: signers that pass it on call CheckVerbatim.
func (r Request) ForSigner() Request {
	if !r.IsForOrder() || r.PKCS10 == nil {
		return r
	}
	r.PKCS10, r.Unreadable = pki.NamesOnly(r.PKCS10)
	r.ObjectAnnotations = maps.Clone(r.ObjectAnnotations)
	for _, name := range []string{AnnotationDuration, AnnotationIsCA, AnnotationKey} {
		delete(r.ObjectAnnotations, name)
	}
	return r
}

// CheckVerbatim returns an error if the PKCS#10 request of an ACME client must not be
// passed on unchanged to a signer that copies its content: the client must not choose the
// subject and the usages. Other requests are not checked: their content is what their
// requesters want and their approvers approve.
func (r Request) CheckVerbatim() error {
	if !r.IsForOrder() || len(r.PEM) == 0 {
		return nil
	}
	sent, err := certmanager.ParseRequest(r.PEM)
	if err != nil {
		return fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := CheckSubjectVerbatim(sent); err != nil {
		return err
	}
	usages, err := pki.ParseUsages(r.Usages)
	if err != nil {
		return fmt.Errorf("spec.usages: %w", err)
	}
	return certmanager.CheckContent(sent, usages, false)
}

// CheckSubjectVerbatim reports why a signer that copies subjects must not get the request
// of an ACME client.
func CheckSubjectVerbatim(sent *pki.Request) error {
	if len(sent.Subject.Names) > 1 || len(pki.CommonNames(sent.Subject)) < len(sent.Subject.Names) {
		return errors.New("the subject of the certificate request has more than a common name: leave the rest out")
	}
	return nil
}
