// Package renewable decides which stored requests a request may renew.
package renewable

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Stored is a request with its outcome.
type Stored struct {
	Request    request.Request
	Conditions []quorum.Condition
	// Certificate is the certificate in PEM, with its chain.
	Certificate []byte
}

// backdated is how long before its request a certificate's validity can count as begun. An
// earlier NotBefore is replaced by that time.
const backdated = time.Hour

// Candidate is an earlier request that may be renewed if its signer's CA has signed its
// certificate.
type Candidate struct {
	v1alpha1.EarlierRequest
	chain []*x509.Certificate
}

// CheckSignature returns an error unless one of the CAs of the signer has signed the
// certificate: a user with write access to the status of requests could have stored
// another one.
func (c *Candidate) CheckSignature(authorities []*x509.Certificate) error {
	switch {
	case len(authorities) == 0:
		return errors.New("it is not known which CA its signer has")
	case !pki.SignedBy(c.chain, authorities):
		return errors.New("its certificate is not signed by its signer's CA")
	}
	return nil
}

// Earlier returns the earlier request s as a candidate that r may renew. It must have the
// same owner and the same content, except for the key, a certificate for its own key, and
// approvals by people that verify. The decision checks whether these approvals suffice and
// whether the certificate is valid. The error explains why r may not renew it.
func Earlier(r *request.Request, s *Stored, open quorum.OpenFunc) (*Candidate, error) {
	if err := cmp.Or(sameOwner(r, &s.Request), sameContent(r, &s.Request), isApproved(s.Conditions)); err != nil {
		return nil, err
	}
	chain, err := certificateOf(s)
	if err != nil {
		return nil, err
	}
	cert := chain[0]
	votes := quorum.Votes(s.Conditions, s.Request, open)
	if len(votes) == 0 {
		return nil, errors.New("no approval by people verifies")
	}
	begin := cert.NotBefore
	if earliest := s.Request.Created.Add(-backdated); begin.Before(earliest) {
		begin = earliest
	}
	use := keyuse.Of(&s.Request)
	first := &Candidate{v1alpha1.EarlierRequest{StoredRequest: *use.Stored(), NotBefore: metav1.NewTime(begin), NotAfter: metav1.NewTime(cert.NotAfter)}, chain}
	for _, v := range votes {
		first.Votes = append(first.Votes, v.Logged())
	}
	return first, nil
}

func sameOwner(r, s *request.Request) error {
	a, b := r.Who(), s.Who()
	switch {
	case r.UID == s.UID:
		return errors.New("it is the request itself")
	case keyuse.OwnerOf(r) != keyuse.OwnerOf(s), a.UID != "" && b.UID != "" && a.UID != b.UID:
		return errors.New("it is of another owner")
	}
	return nil
}

// sameContent compares all that is asked for but the key and the lifetime, which the
// decision limits.
func sameContent(r, s *request.Request) error {
	switch {
	case r.AsksForCA() || s.AsksForCA():
		return errors.New("CA certificates are not renewed without people")
	case r.PKCS10 == nil || s.PKCS10 == nil:
		return errors.New("it cannot be read")
	case r.SignerName != s.SignerName || (r.Issuer == nil) != (s.Issuer == nil) || r.Issuer != nil && (r.Issuer.Group != s.Issuer.Group || r.Issuer.Signer != s.Issuer.Signer):
		return errors.New("it is for another signer")
	case !slices.Equal(keyuse.Content(r), keyuse.Content(s)):
		return errors.New("it is for another subject or other names")
	case !slices.Equal(usages(r), usages(s)):
		return errors.New("it has other usages")
	case !slices.Equal(extensions(r.PKCS10), extensions(s.PKCS10)):
		return errors.New("it has other extensions")
	case r.ObjectAnnotations[request.AnnotationKey] != s.ObjectAnnotations[request.AnnotationKey]:
		return errors.New("it is for the key in another Secret")
	}
	return nil
}

func usages(r *request.Request) []string {
	return slices.Compact(slices.Sorted(slices.Values(r.Usages)))
}

// extensions returns the requested extensions. Names are compared one by one, unless
// some of them are of a kind whose values may be no texts.
func extensions(asked *pki.Request) []string {
	var all []string
	for _, e := range asked.Extensions {
		if e.Id.Equal(pki.OIDSubjectAltName) && asked.OtherNames.Err == nil && len(asked.OtherNames.Value) == 0 {
			continue
		}
		all = append(all, fmt.Sprintf("%v %t %x", e.Id, e.Critical, e.Value))
	}
	slices.Sort(all)
	return all
}

func isApproved(conditions []quorum.Condition) error {
	approved := false
	for _, c := range conditions {
		set := c.Status == "True" || c.Status == ""
		switch {
		case set && (c.Type == "Denied" || c.Type == "Failed" || c.Type == "InvalidRequest"):
			return errors.New("it is denied or has failed")
		case c.Type == "Approved":
			approved = set
		}
	}
	if !approved {
		return errors.New("it is not approved")
	}
	return nil
}

// certificateOf returns the certificate of a request, which is for its key, with its
// chain.
func certificateOf(s *Stored) ([]*x509.Certificate, error) {
	chain, err := pki.ParseCertificates(s.Certificate)
	if err != nil || len(chain) == 0 {
		return nil, errors.New("it has no readable certificate")
	}
	cert := chain[0]
	switch {
	case cert.IsCA:
		return nil, errors.New("CA certificates are not renewed without people")
	case pki.KeyFingerprint(cert.PublicKey) != pki.KeyFingerprint(s.Request.Key):
		return nil, errors.New("its certificate is for another key")
	}
	return chain, nil
}
