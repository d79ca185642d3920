package rfc8555

import "testing"

func TestRecordName(t *testing.T) {
	const account = "https://example.com/acme/acct/ExampleAccount"
	for _, tc := range []struct{ reason, kind, domain, want string }{
		{"a name", ChallengeDNS01, "Example.org", "_acme-challenge.example.org."},
		{"a wildcard", ChallengeDNS01, "*.example.org", "_acme-challenge.example.org."},
		{"with a final dot", ChallengeDNS01, "example.org.", "_acme-challenge.example.org."},
		{"the example of draft-ietf-acme-dns-account-label", ChallengeDNSAccount01, "example.org", "_ujmmovf2vn55tgye._acme-challenge.example.org."},
		{"a persistent record", ChallengeDNSPersist01, "example.org", "_validation-persist.example.org."},
		{"no record", ChallengeHTTP01, "example.org", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := RecordName(tc.kind, tc.domain, account); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
