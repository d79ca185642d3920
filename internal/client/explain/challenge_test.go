package explain

import (
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/challenge"
)

// What a CA expects, and the commands with which to look for it.
func TestExpected(t *testing.T) {
	issuer := &cmv1.Issuer{}
	issuer.Status.ACME = &acmev1.ACMEIssuerStatus{URI: "https://example.com/acme/acct/ExampleAccount"}
	for _, tc := range []struct {
		reason string
		kind   acmev1.ACMEChallengeType
		change func(*acmev1.Challenge)
		want   Expected
		// commands are joined by newlines; empty for none.
		commands string
	}{
		{
			reason: "HTTP-01", kind: acmev1.ACMEChallengeTypeHTTP01, change: func(*acmev1.Challenge) {},
			want:     Expected{URL: "http://a.example.org/.well-known/acme-challenge/token", Value: "key"},
			commands: "dig +short A a.example.org\ndig +short AAAA a.example.org\ncurl --silent --show-error --location --include http://a.example.org/.well-known/acme-challenge/token",
		},
		{
			reason: "HTTP-01 for an address", kind: acmev1.ACMEChallengeTypeHTTP01, change: func(ch *acmev1.Challenge) { ch.Spec.DNSName = "2001:db8::1" },
			want:     Expected{URL: "http://[2001:db8::1]/.well-known/acme-challenge/token", Value: "key"},
			commands: "curl --silent --show-error --location --include http://[2001:db8::1]/.well-known/acme-challenge/token",
		},
		{
			reason: "TLS-ALPN-01 for an address", kind: certmanager.TypeTLSALPN01, change: func(ch *acmev1.Challenge) { ch.Spec.DNSName = "192.0.2.1" },
			want:     Expected{Server: "192.0.2.1:443", Value: "key"},
			commands: "openssl s_client -connect 192.0.2.1:443 -servername 1.2.0.192.in-addr.arpa -alpn acme-tls/1",
		},
		{
			reason: "DNS-01", kind: acmev1.ACMEChallengeTypeDNS01, change: func(*acmev1.Challenge) {},
			want:     Expected{Record: "_acme-challenge.a.example.org.", Value: "key"},
			commands: "dig +short TXT _acme-challenge.a.example.org.\ndig +trace TXT _acme-challenge.a.example.org.",
		},
		{
			reason: "DNS-01, written elsewhere", kind: acmev1.ACMEChallengeTypeDNS01,
			change: func(ch *acmev1.Challenge) {
				ch.Annotations = map[string]string{challenge.Presented: `{"provider":"rfc2136","fqdn":"b.example.net.","zone":"example.net."}`}
			},
			want: Expected{Record: "_acme-challenge.a.example.org.", Value: "key", Written: "b.example.net."},
			commands: "dig +short TXT _acme-challenge.a.example.org.\ndig +trace TXT _acme-challenge.a.example.org.\n" +
				"dig +short CNAME _acme-challenge.a.example.org.\ndig +short TXT b.example.net.",
		},
		{
			reason: "dns-account-01", kind: certmanager.TypeDNSAccount01, change: func(*acmev1.Challenge) {},
			want:     Expected{Record: "_ujmmovf2vn55tgye._acme-challenge.a.example.org.", Value: "key"},
			commands: "dig +short TXT _ujmmovf2vn55tgye._acme-challenge.a.example.org.\ndig +trace TXT _ujmmovf2vn55tgye._acme-challenge.a.example.org.",
		},
		{
			reason: "dns-persist-01", kind: certmanager.TypeDNSPersist01,
			change: func(ch *acmev1.Challenge) { ch.Spec.Key, ch.Spec.Token, ch.Spec.Wildcard = "ca.example", "", true },
			want: Expected{
				Record: "_validation-persist.a.example.org.", Value: "ca.example; accounturi=https://example.com/acme/acct/ExampleAccount; policy=wildcard",
			},
			commands: "dig +short TXT _validation-persist.a.example.org.\ndig +trace TXT _validation-persist.a.example.org.",
		},
		{
			reason: "a name that is an option of dig", kind: acmev1.ACMEChallengeTypeHTTP01, change: func(ch *acmev1.Challenge) { ch.Spec.DNSName = "-f/etc/passwd" },
			want: Expected{URL: "http://-f/etc/passwd/.well-known/acme-challenge/token", Value: "key"},
		},
		{
			reason: "a token that is none", kind: acmev1.ACMEChallengeTypeHTTP01, change: func(ch *acmev1.Challenge) { ch.Spec.Token = "../x" },
			want: Expected{URL: "http://a.example.org/.well-known/acme-challenge/../x", Value: "key"},
		},
		{
			reason: "a place that is an option of dig", kind: acmev1.ACMEChallengeTypeDNS01,
			change:   func(ch *acmev1.Challenge) { ch.Annotations = map[string]string{challenge.Presented: "-f/etc/passwd"} },
			want:     Expected{Record: "_acme-challenge.a.example.org.", Value: "key", Written: "-f/etc/passwd"},
			commands: "dig +short TXT _acme-challenge.a.example.org.\ndig +trace TXT _acme-challenge.a.example.org.",
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			ch := &acmev1.Challenge{Spec: acmev1.ChallengeSpec{Type: tc.kind, DNSName: "a.example.org", Token: "token", Key: "key"}}
			tc.change(ch)
			f := &challengeFacts{challenge: ch, issuer: &IssuerFacts{Object: issuer}}
			if got := f.expected(); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
			var commands []string
			for _, s := range f.lookUp() {
				for _, c := range s.Commands {
					commands = append(commands, strings.Join(c, " "))
				}
			}
			if got := strings.Join(commands, "\n"); got != tc.commands {
				t.Errorf("commands\n%s\nwant\n%s", got, tc.commands)
			}
		})
	}
}
