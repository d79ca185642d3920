package acme_test

import (
	"encoding/pem"
	"errors"
	"testing"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

func TestRevoke(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{Authorized: true})
	c := newClient(t, newPool(t, nil), s)
	order := func() []byte {
		o, err := c.NewOrder(t.Context(), names("a.example.com"))
		if err != nil {
			t.Fatal(err)
		}
		if o, err = c.Finalize(t.Context(), o.Finalize, o.URL, newCSR(t, "a.example.com")); err != nil {
			t.Fatal(err)
		}
		chain, _, err := c.Certificate(t.Context(), o.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		return chain[0]
	}
	one, two := order(), order()
	for reason, tc := range map[string]struct {
		der    []byte
		reason pki.Reason
	}{"a usual reason": {one, pki.ReasonSuperseded}, "a reason that the CA does not accept": {two, pki.ReasonAffiliationChanged}} {
		for range 2 { // the second time, it is revoked already
			if err := c.Revoke(t.Context(), tc.der, tc.reason); err != nil {
				t.Errorf("%s: %v", reason, err)
			}
		}
	}
	codes := map[int]bool{}
	for _, code := range s.Revoked() {
		codes[code] = true
	}
	if len(codes) != 2 || !codes[int(pki.ReasonSuperseded)] || !codes[int(pki.ReasonUnspecified)] {
		t.Errorf("the CA has revoked for the reasons %v", codes)
	}
	root, _ := pem.Decode(s.Roots())
	if p := problem(t, c.Revoke(t.Context(), root.Bytes, pki.ReasonUnspecified)); !p.HasType(rfc8555.ProblemUnauthorized) {
		t.Errorf("a certificate of somebody else: %v", p)
	}

	without := acmetest.Start(t, acmetest.Options{NoRevocation: true})
	if err := newClient(t, newPool(t, nil), without).Revoke(t.Context(), one, pki.ReasonUnspecified); !errors.Is(err, acme.ErrNoRevocation) {
		t.Errorf("a CA that revokes nothing: %v", err)
	}
}
