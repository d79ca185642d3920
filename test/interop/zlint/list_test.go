package zlint

import (
	"context"
	"crypto/rand"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"time"

	zcrypto "github.com/zmap/zcrypto/x509"
	"github.com/zmap/zlint/v3"
	"github.com/zmap/zlint/v3/lint"

	"github.com/certplane/certplane/internal/pki"
)

// TestLists has zlint judge revocation lists of CAs with keys of all types, by the rules for
// public CAs too.
func TestLists(t *testing.T) {
	lints, err := lint.GlobalRegistry().Filter(lint.FilterOptions{IncludeSources: append(slices.Clone(sources), lint.CABFBaselineRequirements)})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(lints.RevocationListLints().Lints()); n < 15 {
		t.Fatalf("%d lints of lists only", n)
	}
	now := time.Now()
	// Public CAs revoke certificates of CAs with other reasons.
	const reasons = "e_cab_crl_has_valid_reason_code"
	var entries []pki.ListEntry
	for i, reason := range pki.Reasons() {
		entries = append(entries, pki.ListEntry{Serial: append([]byte{byte(i + 1)}, make([]byte, 19)...), Time: now.Add(-time.Hour), Reason: reason})
	}
	for _, kind := range keyTypes {
		for _, listed := range [][]pki.ListEntry{nil, entries} {
			t.Run(string(kind)+" "+strconv.Itoa(len(listed)), func(t *testing.T) {
				ca, err := pki.NewRoot(pki.UnrecordedSigning, "Example Root CA", newKey(t, kind), pki.DefaultRootLifetime, now.Add(-24*time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				list, err := ca.Lists().Lint(pki.List{Number: big.NewInt(now.UnixMilli()), ThisUpdate: now, NextUpdate: now.AddDate(0, 0, 7), Entries: listed}, nil)
				if err != nil {
					t.Fatal(err)
				}
				der, err := list.Sign(t.Context(), rand.Reader, func(context.Context, pki.SignedList) error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				parsed, err := zcrypto.ParseRevocationList(der)
				if err != nil {
					t.Fatalf("zlint's parser: %v", err)
				}
				passed := 0
				for name, result := range zlint.LintRevocationListEx(parsed, lints).Results {
					switch {
					case name == reasons && listed != nil:
						if result.Status < lint.Warn {
							t.Errorf("%s has no objection", name)
						}
					case result.Status >= lint.Warn:
						t.Errorf("%s: %s %s", name, result.Status, result.Details)
					case result.Status == lint.Pass:
						passed++
					}
				}
				if passed < 5 {
					t.Errorf("%d lints passed only", passed)
				}
			})
		}
	}
}
