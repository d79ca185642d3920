package acmeserver

import (
	"fmt"
	"net/http"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
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

func (x *exchange) directory() (*answer, error) {
	spec := x.endpoint.Spec()
	meta := directoryMeta{
		TermsOfService: spec.Accounts.TermsOfService, Website: spec.Website, Profiles: map[string]string{},
		ExternalAccountRequired: spec.Accounts.Admission == v1alpha1.AcmeAdmissionExternalKey,
	}
	for _, p := range spec.Profiles {
		meta.Profiles[p.Name] = p.Description
	}
	a := ok(directoryView{
		NewNonce: x.url("new-nonce"), NewAccount: x.url("new-account"), NewOrder: x.url("new-order"),
		RevokeCert: x.url("revoke-cert"), KeyChange: x.url("key-change"), RenewalInfo: x.url("renewal-info"), Meta: meta,
	})
	a.cache = "public, max-age=0, no-cache"
	return a, nil
}

// newNonce answers HEAD and GET (RFC 8555 section 7.2).
func (x *exchange) newNonce() (*answer, error) {
	if x.draining.Load() {
		return nil, unavailable(x.now, "the server is stopping")
	}
	x.header.Set("Replay-Nonce", x.nonces.Issue())
	if x.r.Method == http.MethodHead {
		return &answer{status: http.StatusOK}, nil
	}
	return &answer{status: http.StatusNoContent}, nil
}

// roots answers with the roots of the server's own certificate.
func (x *exchange) roots() (*answer, error) {
	if x.Roots == nil {
		return nil, notFound()
	}
	roots := x.Roots()
	if len(roots) == 0 {
		return nil, notFound()
	}
	return &answer{status: http.StatusOK, media: "application/x-pem-file", body: roots, cache: "max-age=600"}, nil
}

// helpURL is the page for an account that waits for its approval.
func (x *exchange) helpURL(account string) string { return x.url("help", "account", account) }

// helpAccount is a page for people. Whether there is such an account is not said.
func (x *exchange) helpAccount() (*answer, error) {
	name := x.args[0]
	if !isID(name) {
		return nil, notFound()
	}
	text := fmt.Sprintf("The ACME account %[1]s cannot order certificates until an administrator has approved it.\n\n"+
		"An administrator approves it with\n\n\tkubectl patch acmeaccount %[1]s --type merge -p '{\"spec\":{\"decision\":\"Approved\"}}'\n\n"+
		"for which the verb approve on acmeendpoints/%[2]s is needed. Then run the ACME client again.\n", name, x.endpoint.Name())
	return &answer{status: http.StatusOK, media: "text/plain; charset=utf-8", body: []byte(text), cache: "no-store"}, nil
}
