package pki_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func TestReasons(t *testing.T) {
	got := map[string]uint8{}
	for _, reason := range pki.Reasons() {
		got[reason.String()] = uint8(reason)
		if parsed, err := pki.ParseReason(reason.String()); err != nil || parsed != reason {
			t.Errorf("%v is parsed as %v, %v", reason, parsed, err)
		}
	}
	want := map[string]uint8{
		"Unspecified": 0, "KeyCompromise": 1, "CACompromise": 2, "AffiliationChanged": 3, "Superseded": 4,
		"CessationOfOperation": 5, "PrivilegeWithdrawn": 9,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("RFC 5280 section 5.3.1: -want +got:\n%s", diff)
	}
	for _, text := range []string{"", "keyCompromise", "CertificateHold", "1", "Reason(6)"} {
		if _, err := pki.ParseReason(text); err == nil {
			t.Errorf("%q was parsed", text)
		}
	}
	if got := pki.Reason(6).String(); got != "Reason(6)" {
		t.Errorf("an unknown reason is called %q", got)
	}
}
