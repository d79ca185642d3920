package inventory

import (
	"fmt"
	"strings"
	"testing"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

func TestNames(t *testing.T) {
	many := func(count int, more ...string) *inventoryv1alpha1.CertificateFacts {
		facts := &inventoryv1alpha1.CertificateFacts{CommonName: "Web", IPAddresses: []string{"192.0.2.7"}, URIs: []string{"spiffe://uri.example"}, EmailAddresses: []string{"ann@mail.example"}}
		for i := range count {
			facts.DNSNames = append(facts.DNSNames, fmt.Sprintf("Host-%d.corp.example", i))
		}
		facts.DNSNames = append(facts.DNSNames, more...)
		BoundNames(facts)
		return facts
	}
	few, digested, all := many(3, "*.wild.example"), many(500, "*.X.bank.example"), many(3000)
	for _, tc := range []struct {
		reason string
		facts  *inventoryv1alpha1.CertificateFacts
		name   string
		want   Presence
	}{
		{"a name", few, "host-2.corp.example", Present},
		{"the common name", few, "web", Present},
		{"an address", few, "192.0.2.7", Present},
		{"no name", few, "host-3.corp.example", Absent},
		{"nothing", few, "", Absent},
		{"a name in the record", digested, "host-2.corp.example", Present},
		{"a name that is left out", digested, "*.x.bank.example", Possible},
		{"an address that is left out", digested, "192.0.2.7", Possible},
		{"a URI that is left out", digested, "spiffe://uri.example", Possible},
		{"an e-mail address that is left out", digested, "ann@mail.example", Possible},
		{"no name, and many are left out", digested, "host-500.corp.example", Absent},
		{"too many names for digests", all, "host-3000.corp.example", Possible},
		{"a name, beside too many for digests", all, "host-0.corp.example", Present},
	} {
		if got := HasName(tc.facts, tc.name); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.reason, got, tc.want)
		}
	}
	for _, tc := range []struct {
		reason string
		facts  *inventoryv1alpha1.CertificateFacts
		domain string
		want   Presence
	}{
		{"the domain", few, "corp.example", Present},
		{"one above", few, "example", Present},
		{"of a wildcard", few, "wild.example", Present},
		{"half a label", few, "orp.example", Absent},
		{"the name itself", few, "host-2.corp.example", Absent},
		{"the host of a URI", few, "uri.example", Absent},
		{"a name that is left out", digested, "bank.example", Possible},
		{"its parent", digested, "x.bank.example", Possible},
		{"another domain", digested, "shop.example", Absent},
		{"the host of a URI that is left out", digested, "uri.example", Absent},
		{"too many names for digests", all, "shop.example", Possible},
	} {
		if got := IsBelow(tc.facts, tc.domain); got != tc.want {
			t.Errorf("below: %s: %d, want %d", tc.reason, got, tc.want)
		}
	}
	long := &inventoryv1alpha1.CertificateFacts{CommonName: strings.Repeat("a.", maxNameBytes), DNSNames: []string{"short.example"}}
	if BoundNames(long); long.CommonName != "" || long.OmittedNames != 1 || len(long.DNSNames) != 1 || HasName(long, strings.Repeat("a.", maxNameBytes)) != Possible {
		t.Errorf("a common name that is too long: %d names are left out", long.OmittedNames)
	}
	if text := ShownNames(digested); !strings.HasSuffix(text, fmt.Sprintf("+ %d more, %d of them not in the record", 502, digested.OmittedNames)) {
		t.Errorf("shown as %q", text)
	}
	if got := BoundText(strings.Repeat("é", maxText)); len(got) > maxText || got == BoundText(strings.Repeat("é", maxText)+"x") {
		t.Errorf("a text of %d bytes: %s", len(got), got)
	}
}
