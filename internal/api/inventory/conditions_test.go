package inventory

import (
	"strings"
	"testing"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

func TestNormalizeField(t *testing.T) {
	for _, tc := range []struct{ field, value, want, refused string }{
		{inventoryv1alpha1.KeyTypeField, "rsa-2048", "RSA 2048", ""},
		{inventoryv1alpha1.KeyTypeField, "RSA2048", "RSA 2048", ""},
		{inventoryv1alpha1.KeyTypeField, "RSA", "RSA", ""},
		{inventoryv1alpha1.KeyTypeField, "ECDSA-P256", "ECDSA P-256", ""},
		{inventoryv1alpha1.KeyTypeField, "ecdsa p-384", "ECDSA P-384", ""},
		{inventoryv1alpha1.KeyTypeField, "ed25519", "Ed25519", ""},
		{inventoryv1alpha1.KeyTypeField, "DSA", "", `certificate.keyType: "DSA" is not a type of key: want RSA, RSA-2048`},
		{inventoryv1alpha1.KeyFingerprintField, "AB:" + strings.Repeat("cd", 31), "ab" + strings.Repeat("cd", 31), ""},
		{inventoryv1alpha1.KeyFingerprintField, strings.Repeat("cd", 31), "", "want 64 hexadecimal digits"},
		{inventoryv1alpha1.WeakerThanField, "RSA-3072", "RSA 3072", ""},
		{inventoryv1alpha1.WeakerThanField, "RSA", "", "has no size"},
		{inventoryv1alpha1.SignatureAlgorithmField, "SHA-1", "sha1", ""},
		{inventoryv1alpha1.UnderField, ".Corp.Example.", "corp.example", ""},
		{inventoryv1alpha1.UnderField, "*.corp.example", "", "is not a domain"},
		{inventoryv1alpha1.UnderField, ".", "", "is not a domain"},
		{inventoryv1alpha1.LongerThanField, "90d", "7776000", ""},
		{inventoryv1alpha1.LongerThanField, "2160h", "7776000", ""},
		{inventoryv1alpha1.LongerThanField, "long", "", "is not a duration"},
		{inventoryv1alpha1.IssuedSinceField, "2030-01-01", "1893456000", ""},
		{inventoryv1alpha1.IssuedSinceField, "2030-01-01T01:00:00+01:00", "1893456000", ""},
		{inventoryv1alpha1.IssuedBeforeField, "yesterday", "", `"yesterday" is not a time, such as`},
		{"spec.name", "x", "", "only certificate.fingerprint, certificate.keyFingerprint, certificate.keyType"},
	} {
		_, got, err := NormalizeField(tc.field, tc.value)
		switch {
		case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("%s=%s: %v, want an error with %q", tc.field, tc.value, err, tc.refused)
		case tc.refused == "" && (err != nil || got != tc.want):
			t.Errorf("%s=%s: %q, %v, want %q", tc.field, tc.value, got, err, tc.want)
		}
	}
}
