package kms

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	const secret = "74108520"
	tests := []struct{ reason, uri, want string }{
		{"no key", "awskms:region=eu-central-1", "must look like awskms:key-id=KEY-ID?region=REGION"},
		{"a key without its version", "cloudkms:projects/p/locations/l/keyRings/r/cryptoKeys/k", "must look like cloudkms:projects/P/"},
		{"no vault", "azurekms:name=k", "must look like azurekms:name=KEY;vault=VAULT"},
		{"a password", "azurekms:name=k;vault=v?client-secret=" + secret, "AZURE_CLIENT_SECRET"},
		{"fine", "awskms:key-id=1234abcd-12ab-34cd-56ef-1234567890ab?region=eu-central-1", ""},
		{"fine with its options first", "awskms:region=eu-central-1;key-id=1234abcd", ""},
		{"fine", "cloudkms:projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/12", ""},
		{"fine", "azurekms:vault=v;name=k?version=1", ""},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			service := serviceOf(t, tc.uri)
			want := tc.want
			if want == "" && service.open == nil {
				want = "go build -tags " + service.tag + " ./cmd/certplane"
			}
			err := service.Validate(tc.uri)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("error shows a secret: %v", err)
			}
			if _, opened := service.Open(t.Context(), tc.uri); want != "" && (opened == nil || opened.Error() != err.Error()) {
				t.Errorf("Open says %v", opened)
			}
		})
	}
}

func serviceOf(t *testing.T, uri string) Service {
	t.Helper()
	for _, s := range Services {
		if strings.HasPrefix(uri, s.Prefix) {
			return s
		}
	}
	t.Fatalf("no service for %s", uri)
	return Service{}
}
