package pki_test

import (
	"crypto/x509"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func TestParseUsages(t *testing.T) {
	type usage string // stands for the usage types of the APIs that call this
	tests := []struct {
		reason string
		names  []usage
		want   pki.Usages
		err    string
	}{
		{reason: "nothing", names: nil},
		{
			reason: "signing is an alias of digital signature",
			names:  []usage{"signing"},
			want:   pki.Usages{Key: x509.KeyUsageDigitalSignature},
		},
		{
			reason: "the other name of the same bit",
			names:  []usage{"digital signature", "signing"},
			want:   pki.Usages{Key: x509.KeyUsageDigitalSignature},
		},
		{
			reason: "extended only",
			names:  []usage{"client auth"},
			want:   pki.Usages{Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		},
		{
			reason: "repeats collapse",
			names:  []usage{"client auth", "client auth"},
			want:   pki.Usages{Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		},
		{
			reason: "s/mime is an alias of email protection",
			names:  []usage{"s/mime", "email protection"},
			want:   pki.Usages{Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}},
		},
		{
			reason: "bits add up",
			names:  []usage{"cert sign", "encipher only"},
			want:   pki.Usages{Key: x509.KeyUsageCertSign | x509.KeyUsageEncipherOnly},
		},
		{
			reason: "all bits",
			names: []usage{"decipher only", "encipher only", "crl sign", "cert sign", "data encipherment", "key agreement",
				"key encipherment", "content commitment", "digital signature"},
			want: pki.Usages{Key: 0x1ff},
		},
		{
			reason: "mixed and sorted",
			names:  []usage{"ocsp signing", "crl sign", "s/mime", "content commitment"},
			want: pki.Usages{
				Key:      x509.KeyUsageCRLSign | x509.KeyUsageContentCommitment,
				Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection, x509.ExtKeyUsageOCSPSigning},
			},
		},
		{
			reason: "all extended usages, sorted",
			names: []usage{"netscape sgc", "microsoft sgc", "ocsp signing", "timestamping", "ipsec user", "ipsec tunnel",
				"ipsec end system", "email protection", "code signing", "client auth", "server auth", "any"},
			want: pki.Usages{Extended: []x509.ExtKeyUsage{
				x509.ExtKeyUsageAny, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageCodeSigning,
				x509.ExtKeyUsageEmailProtection, x509.ExtKeyUsageIPSECEndSystem, x509.ExtKeyUsageIPSECTunnel, x509.ExtKeyUsageIPSECUser,
				x509.ExtKeyUsageTimeStamping, x509.ExtKeyUsageOCSPSigning,
				x509.ExtKeyUsageMicrosoftServerGatedCrypto, x509.ExtKeyUsageNetscapeServerGatedCrypto,
			}},
		},
		{
			reason: "unknown ones are named, in their order",
			names:  []usage{"client auth", "world domination", "Client Auth"},
			err:    `unrecognized usage values: ["world domination" "Client Auth"]`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := pki.ParseUsages(tc.names)
			if text(err) != tc.err {
				t.Fatalf("error %q, want %q", text(err), tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
