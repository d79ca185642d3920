package explain

import (
	"testing"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// sign returns the certificate that a signer with this profile issues.
func sign(t *testing.T, profile signer.Profile, c *csr) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "test root", key, pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	local := signer.Local(profile, func() (*pki.Authority, error) { return ca, nil }, pki.Unrecorded)
	issued, err := local(t.Context(), request.FromCSR(c), signer.Permission{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return issued.PEM
}
