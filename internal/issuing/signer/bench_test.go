package signer_test

import (
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

// BenchmarkSign is what one certificate costs, linting included.
func BenchmarkSign(b *testing.B) {
	for _, kind := range []pki.KeyType{pki.ECDSAP256, pki.Ed25519, pki.RSA2048} {
		b.Run(string(kind), func(b *testing.B) {
			key, err := pki.GenerateKey(kind)
			if err != nil {
				b.Fatal(err)
			}
			root, err := pki.NewRoot(pki.UnrecordedSigning, "bench", key, pki.DefaultRootLifetime, now)
			if err != nil {
				b.Fatal(err)
			}
			sign, req := local(lookup(b, apiServerClient), root), asking(newRequest(b), clientUsages, nil)
			for b.Loop() {
				if _, err := sign(b.Context(), req, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
