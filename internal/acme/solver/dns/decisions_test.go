package dns

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/acme/solver/dns/webhook"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// TestJudge: which servers must have a record. In views, h has it, l lacks it,
// d is down, and D knows it but is not authoritative.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		reason, views string
		propagated    bool
		text          string
	}{
		{reason: "all have it", views: "hhh", propagated: true},
		{reason: "one is late", views: "hlh", text: "missing at ns1"},
		{reason: "two are late", views: "lhl", text: "missing at ns0, ns2"},
		{reason: "one of two is down", views: "hd", propagated: true},
		{reason: "one of three is down", views: "hdh", propagated: true},
		{reason: "two of three are down", views: "hdd", text: "1 of 3 servers have it; ns1 is down; ns2 is down"},
		{reason: "all are down", views: "dd", text: "0 of 2 servers have it; ns0 is down; ns1 is down"},
		{reason: "one is down, one late", views: "dlh", text: "missing at ns1; ns0 is down"},
		{reason: "no servers", views: "", text: "0 of 0 servers have it"},
		{reason: "one has it without the bit AA", views: "D", propagated: true},
	} {
		var views []resolver.View
		for i, c := range tc.views {
			v := resolver.View{Server: fmt.Sprintf("ns%d", i)}
			if strings.ContainsRune("hD", c) {
				v.Values = []string{"other", "v"}
			}
			if strings.ContainsRune("dD", c) {
				v.Err = errors.New(v.Server + " is down")
			}
			views = append(views, v)
		}
		j := judge(views, func(values []string) bool { return slices.Contains(values, "v") })
		text := ""
		if !j.propagated {
			text = j.String()
		}
		if j.propagated != tc.propagated || text != tc.text {
			t.Errorf("%s: %v %q, want %v %q", tc.reason, j.propagated, text, tc.propagated, tc.text)
		}
	}
}

// TestTextIsBounded: texts of servers come into the status of Challenges.
func TestTextIsBounded(t *testing.T) {
	views := slices.Repeat([]resolver.View{{Err: errors.New(strings.Repeat("é", 200))}}, 16)
	if text := judge(views, func([]string) bool { return false }).String(); len(text) > maxDetail+3 {
		t.Errorf("%d bytes", len(text))
	}
}

func TestPermission(t *testing.T) {
	const account = "https://ca.example/acct/1"
	now := time.Unix(1_800_000_000, 0)
	tests := []struct {
		reason, value string
		issuers       []string
		wildcard      bool
		want          bool
	}{
		{reason: "all that is needed", value: "ca.example; accounturi=" + account, want: true},
		{reason: "spaces and case", value: " CA.example. ;AccountURI = " + account + " ; ", issuers: []string{"ca.example"}, want: true},
		{reason: "another CA", value: "other.example; accounturi=" + account, issuers: []string{"ca.example"}},
		{reason: "another account", value: "ca.example; accounturi=" + account + "0"},
		{reason: "no account", value: "ca.example"},
		{reason: "no CA", value: "; accounturi=" + account},
		{reason: "two accounts", value: "ca.example; accounturi=" + account + "; accounturi=x"},
		{reason: "no parameter", value: "ca.example; accounturi=" + account + "; policy"},
		{reason: "a wildcard without the policy", value: "ca.example; accounturi=" + account, wildcard: true},
		{reason: "a wildcard", value: "ca.example; accounturi=" + account + "; policy=Wildcard", wildcard: true, want: true},
		{reason: "not yet over", value: "ca.example; accounturi=" + account + "; persistUntil=1800000001", want: true},
		{reason: "over", value: "ca.example; accounturi=" + account + "; persistUntil=1800000000"},
		{reason: "an unreadable end", value: "ca.example; accounturi=" + account + "; persistUntil=soon"},
	}
	for _, tc := range tests {
		p := permission{account: account, issuers: tc.issuers, wildcard: tc.wildcard, now: now}
		if got := p.in(tc.value); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
		if !p.in(p.String()) && len(tc.issuers) > 0 {
			t.Errorf("%s: the proposed record %q does not grant it", tc.reason, p)
		}
	}
	if diff := cmp.Diff([]string{"a.example", "b.example"}, rfc8555.IssuerDomains("A.example, b.example")); diff != "" {
		t.Error(diff)
	}
}

// TestParseWhere: a note that somebody has changed leads nowhere.
func TestParseWhere(t *testing.T) {
	const name = "_acme-challenge.example.com."
	plain := plan{kind: acmev1.ACMEChallengeTypeDNS01, spec: &Spec{}, name: name}
	follow := plan{kind: acmev1.ACMEChallengeTypeDNS01, spec: &Spec{CNAMEStrategy: acmev1.FollowStrategy}, name: name}
	orphan := plan{kind: certmanager.TypeDNSAccount01, spec: &Spec{}, name: rfc8555.RecordName(rfc8555.ChallengeDNSAccount01, "example.com", "")}
	for _, tc := range []struct {
		reason string
		p      plan
		w      where
		ok     bool
	}{
		{"the plain name", plain, where{FQDN: name, Zone: "example.com."}, true},
		{"without a zone", plain, where{FQDN: name}, true},
		{"another name", plain, where{FQDN: "www.example.com.", Zone: "example.com."}, false},
		{"where a CNAME led to", follow, where{FQDN: "x.other.test.", Zone: "other.test."}, true},
		{"a zone that does not have the name", follow, where{FQDN: "x.other.test.", Zone: "her.test."}, false},
		{"the root as the zone", follow, where{FQDN: "x.other.test.", Zone: "."}, false},
		{"no name", follow, where{}, false},
		{"no final dot", follow, where{FQDN: "x.other.test"}, false},
		{"an account whose issuer is gone", orphan, where{FQDN: "_abc." + name}, true},
		{"another name for it", orphan, where{FQDN: "www." + name}, false},
	} {
		got, err := parseWhere(tc.w.String(), tc.p)
		if (err == nil) != tc.ok || tc.ok && got != tc.w {
			t.Errorf("%s: %v, error %v", tc.reason, got, err)
		}
	}
	if _, err := parseWhere("{", plain); err == nil {
		t.Error("half a note is accepted")
	}
}

func TestSettings(t *testing.T) {
	length := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for _, tc := range []struct {
		reason string
		change func(*Settings)
		err    string
	}{
		{reason: "the defaults", change: func(*Settings) {}},
		{reason: "name servers", change: func(s *Settings) {
			s.RecursiveNameservers = []string{"192.0.2.1:53", "[2001:db8::1]:53", "dns.example:5353", "https://dns.example/dns-query"}
		}},
		{reason: "no port", change: func(s *Settings) { s.RecursiveNameservers = []string{"192.0.2.1"} }, err: `acme.dns01.recursiveNameservers[0]: "192.0.2.1" must be <host>:<port>, or begin with https://`},
		{reason: "http", change: func(s *Settings) { s.RecursiveNameservers = []string{"http://x"} }, err: `acme.dns01.recursiveNameservers[0]: "http://x" must be <host>:<port>, or begin with https://`},
		{reason: "a port that is none", change: func(s *Settings) { s.RecursiveNameservers = []string{"x:0"} }, err: `acme.dns01.recursiveNameservers[0]: "x:0" must be <host>:<port>, or begin with https://`},
		{reason: "a user", change: func(s *Settings) { s.RecursiveNameservers = []string{"https://u:p@x"} }, err: "acme.dns01.recursiveNameservers[0]: must be https:// and the address of a server for DNS over HTTPS, without a user"},
		{reason: "no time for queries", change: func(s *Settings) { s.QueryTimeout.Duration = 0 }, err: "acme.dns01.queryTimeout: 0s is out of range: must be between 100ms and 10s"},
		{reason: "no wait", change: func(s *Settings) { s.PropagationDelay = length(0) }},
		{reason: "a wait into the past", change: func(s *Settings) { s.PropagationDelay = length(-1) }, err: "acme.dns01.propagationDelay: -1ns is out of range: must be between 0s and 1h0m0s"},
		{reason: "a webhook twice", change: func(s *Settings) {
			w := webhook.Settings{GroupName: "a.example", URL: "https://x", TokenFile: "/t"}
			s.Webhooks = []webhook.Settings{w, w}
		}, err: `acme.dns01.webhooks[1].groupName: "a.example" has an element already`},
		{reason: "a bad webhook", change: func(s *Settings) { s.Webhooks = []webhook.Settings{{}} }, err: "acme.dns01.webhooks[0].groupName: is missing"},
	} {
		s := DefaultSettings()
		tc.change(&s)
		if err := s.Validate(); (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
		}
	}
}
