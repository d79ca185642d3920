package acmeserver

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
)

// directoryView is the directory (RFC 8555 section 7.1.1).
type directoryView struct {
	NewNonce    string        `json:"newNonce"`
	NewAccount  string        `json:"newAccount"`
	NewOrder    string        `json:"newOrder"`
	RevokeCert  string        `json:"revokeCert"`
	KeyChange   string        `json:"keyChange"`
	RenewalInfo string        `json:"renewalInfo"`
	Meta        directoryMeta `json:"meta"`
}

type directoryMeta struct {
	TermsOfService          string            `json:"termsOfService,omitempty"`
	Website                 string            `json:"website,omitempty"`
	ExternalAccountRequired bool              `json:"externalAccountRequired,omitempty"`
	Profiles                map[string]string `json:"profiles,omitempty"`
}

// pages serves the resources that need no message.
type pages struct {
	nonces   *nonce.Nonces
	draining *atomic.Bool
	// ownRoots is Config.Roots.
	ownRoots func() []byte
}

func (s *pages) directory(c *call) (*answer, error) {
	spec := c.endpoint.Spec()
	meta := directoryMeta{
		TermsOfService: spec.Accounts.TermsOfService, Website: spec.Website, Profiles: map[string]string{},
		ExternalAccountRequired: spec.Accounts.Admission == v1alpha1.AcmeAdmissionExternalKey,
	}
	for _, p := range spec.Profiles {
		meta.Profiles[p.Name] = p.Description
	}
	a := ok(directoryView{
		NewNonce: c.url("new-nonce"), NewAccount: c.url("new-account"), NewOrder: c.url("new-order"),
		RevokeCert: c.url("revoke-cert"), KeyChange: c.url("key-change"), RenewalInfo: c.url("renewal-info"), Meta: meta,
	})
	a.cache = "public, max-age=0, no-cache"
	return a, nil
}

// newNonce answers HEAD and GET (RFC 8555 section 7.2).
func (s *pages) newNonce(c *call) (*answer, error) {
	if s.draining.Load() {
		return nil, unavailable(c.now, "the server is stopping")
	}
	a := &answer{status: http.StatusNoContent, nonce: s.nonces.Issue()}
	if c.r.Method == http.MethodHead {
		a.status = http.StatusOK
	}
	return a, nil
}

// roots answers with the roots of the server's own certificate.
func (s *pages) roots(c *call) (*answer, error) {
	if s.ownRoots == nil {
		return nil, notFound()
	}
	roots := s.ownRoots()
	if len(roots) == 0 {
		return nil, notFound()
	}
	return &answer{status: http.StatusOK, media: "application/x-pem-file", body: roots, cache: "max-age=600"}, nil
}

// helpAccount is a page for people. Whether there is such an account is not said.
func (s *pages) helpAccount(c *call) (*answer, error) {
	name := c.args[0]
	if !isID(name) {
		return nil, notFound()
	}
	text := fmt.Sprintf("The ACME account %[1]s cannot order certificates until an administrator has approved it.\n\n"+
		"An administrator approves it with\n\n\tkubectl patch acmeaccount %[1]s --type merge -p '{\"spec\":{\"decision\":\"Approved\"}}'\n\n"+
		"for which the verb approve on acmeendpoints/%[2]s is needed. Then run the ACME client again.\n", name, c.endpoint.Name())
	return &answer{status: http.StatusOK, media: "text/plain; charset=utf-8", body: []byte(text), cache: "no-store"}, nil
}
