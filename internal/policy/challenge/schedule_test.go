package challenge

import (
	"fmt"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

func candidate(namespace, name string, since time.Duration) Candidate {
	return Candidate{Key: types.NamespacedName{Namespace: namespace, Name: name}, Tenant: Tenant{Namespace: namespace}, Since: now.Add(since)}
}

func TestPick(t *testing.T) {
	a, b := Tenant{Namespace: "a"}, Tenant{Namespace: "b"}
	for _, tc := range []struct {
		reason  string
		waiting []Candidate
		shares  Shares
		taken   string
		want    string
	}{
		{"nobody", nil, Shares{}, "", ""},
		{"the oldest", []Candidate{candidate("a", "2", 2), candidate("a", "1", 1)}, Shares{}, "", "1"},
		{"by name, at the same time", []Candidate{candidate("a", "2", 1), candidate("a", "1", 1)}, Shares{}, "", "1"},
		{"who has less", []Candidate{candidate("a", "1", 1), candidate("b", "2", 2)}, Shares{Busy: map[Tenant]int{a: 2, b: 1}}, "", "2"},
		{"whose turn it is", []Candidate{candidate("a", "1", 1), candidate("b", "2", 2)}, Shares{Last: map[Tenant]uint64{a: 7, b: 6}}, "", "2"},
		{"whose place is free", []Candidate{candidate("a", "1", 1), candidate("a", "2", 2)}, Shares{}, "1", "2"},
		{"no place is free", []Candidate{candidate("a", "1", 1)}, Shares{}, "1", ""},
	} {
		waiting := map[types.NamespacedName]Candidate{}
		for _, c := range tc.waiting {
			waiting[c.Key] = c
		}
		got, ok := Pick(waiting, tc.shares, func(c Candidate) bool { return c.Key.Name == tc.taken })
		if got.Key.Name != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: %q, %v, want %q", tc.reason, got.Key.Name, ok, tc.want)
		}
	}
}

// A tenant with many Challenges gets no more than its share while others wait.
func TestTenantsTakeTurns(t *testing.T) {
	waiting, shares := map[types.NamespacedName]Candidate{}, Shares{Busy: map[Tenant]int{}, Last: map[Tenant]uint64{}}
	for i := range 500 {
		c := candidate("big", fmt.Sprint(i), time.Duration(i))
		waiting[c.Key] = c
	}
	for i := range 3 {
		c := candidate("small", fmt.Sprint(i), time.Hour+time.Duration(i))
		waiting[c.Key] = c
	}
	var order []string
	for i := range uint64(7) {
		c, _ := Pick(waiting, shares, func(Candidate) bool { return false })
		delete(waiting, c.Key)
		shares.Last[c.Tenant] = i + 1 // each is done before the next
		order = append(order, c.Tenant.Namespace)
	}
	if diff := cmp.Diff([]string{"big", "small", "big", "small", "big", "small", "big"}, order); diff != "" {
		t.Errorf("turns (-want +got)\n%s", diff)
	}
}

// A Challenge that has often failed comes after new ones, but its turn comes.
func TestCandidate(t *testing.T) {
	fresh := situation(dns(func(ch *acmev1.Challenge) { ch.Status = acmev1.ChallengeStatus{} }), Memory{}).Candidate()
	failing := situation(dns(presented(time.Hour)), Memory{Step: Check, Tries: 1000}).Candidate()
	if !fresh.Since.Equal(now.Add(-time.Minute)) || !failing.Since.Equal(now.Add(5*time.Minute)) {
		t.Errorf("since %s and %s", fresh.Since, failing.Since)
	}
}

func TestPlaceOf(t *testing.T) {
	webhook := func(group string) func(*acmev1.Challenge) {
		return func(ch *acmev1.Challenge) {
			ch.Spec.Solver.DNS01 = &acmev1.ACMEChallengeSolverDNS01{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: group, SolverName: "s"}}
		}
	}
	cluster := func(ch *acmev1.Challenge) {
		ch.Spec.IssuerRef = cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer"}
	}
	wildcard := func(ch *acmev1.Challenge) { ch.Spec.Wildcard = true }
	elsewhere := func(ch *acmev1.Challenge) { ch.Namespace = "other" }
	acmeDNS := func(ch *acmev1.Challenge) {
		ch.Spec.Solver.DNS01 = &acmev1.ACMEChallengeSolverDNS01{AcmeDNS: &acmev1.ACMEIssuerDNS01ProviderAcmeDNS{Host: "h"}}
	}
	akamai := func(ch *acmev1.Challenge) {
		ch.Spec.Solver.DNS01 = &acmev1.ACMEChallengeSolverDNS01{Akamai: &acmev1.ACMEIssuerDNS01ProviderAkamai{ServiceConsumerDomain: "d"}}
	}
	alpn := func(ch *acmev1.Challenge) {
		webhook("acme.certplane.dev")(ch)
		ch.Spec.Type = "TLS-ALPN-01"
	}
	for _, tc := range []struct {
		reason string
		a, b   *acmev1.Challenge
		limit  int
		same   bool
	}{
		{"tokens separate HTTP-01", dns(http), dns(http), 0, true},
		{"providers keep other records", dns(), dns(wildcard), 0, true},
		{"webhooks may not", dns(webhook("x.example")), dns(webhook("x.example"), wildcard), 1, true},
		{"our own are no webhooks", dns(webhook("acme.certplane.dev")), dns(webhook("acme.certplane.dev")), 0, true},
		{"deSEC has whole sets", dns(webhook("dns.certplane.dev")), dns(webhook("dns.certplane.dev"), wildcard), 1, true},
		{"akamai writes whole sets", dns(akamai), dns(akamai, wildcard), 1, true},
		{"a validation by TLS names no challenge", dns(alpn), dns(alpn, elsewhere), 1, true},
		{"other credentials, other records", dns(webhook("x.example")), dns(webhook("x.example"), elsewhere), 1, false},
		{"the same credentials for all namespaces", dns(webhook("x.example"), cluster), dns(webhook("x.example"), cluster, elsewhere), 1, true},
		{"acme-dns keeps two", dns(acmeDNS), dns(acmeDNS, wildcard), 2, true},
	} {
		a, b := PlaceOf(tc.a), PlaceOf(tc.b)
		if a.Limit != tc.limit || (a == b) != tc.same {
			t.Errorf("%s: %+v and %+v", tc.reason, a, b)
		}
	}
}

func TestSecretNames(t *testing.T) {
	key := func(name string) cmmeta.SecretKeySelector {
		return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}}
	}
	desec := func(group string) *acmev1.ACMEIssuerDNS01ProviderWebhook {
		return &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: group, SolverName: "desec", Config: &apiextensionsv1.JSON{Raw: []byte(`{"tokenSecretRef":{"name":"e","key":"k"}}`)}}
	}
	for _, tc := range []struct {
		solver acmev1.ACMEChallengeSolverDNS01
		want   []string
	}{
		{acmev1.ACMEChallengeSolverDNS01{}, nil},
		{acmev1.ACMEChallengeSolverDNS01{Akamai: &acmev1.ACMEIssuerDNS01ProviderAkamai{ClientToken: key("b"), ClientSecret: key("b"), AccessToken: key("a")}}, []string{"a", "b"}},
		{acmev1.ACMEChallengeSolverDNS01{Cloudflare: &acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: new(key("t"))}}, []string{"t"}},
		{acmev1.ACMEChallengeSolverDNS01{Route53: &acmev1.ACMEIssuerDNS01ProviderRoute53{SecretAccessKey: key("k")}}, []string{"k"}},
		{acmev1.ACMEChallengeSolverDNS01{CloudDNS: &acmev1.ACMEIssuerDNS01ProviderCloudDNS{}}, nil},
		{acmev1.ACMEChallengeSolverDNS01{AzureDNS: &acmev1.ACMEIssuerDNS01ProviderAzureDNS{ClientSecret: new(key("z"))}}, []string{"z"}},
		{acmev1.ACMEChallengeSolverDNS01{DigitalOcean: &acmev1.ACMEIssuerDNS01ProviderDigitalOcean{Token: key("d")}}, []string{"d"}},
		{acmev1.ACMEChallengeSolverDNS01{AcmeDNS: &acmev1.ACMEIssuerDNS01ProviderAcmeDNS{AccountSecret: key("c")}}, []string{"c"}},
		{acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{TSIGSecret: key("r")}}, []string{"r"}},
		{acmev1.ACMEChallengeSolverDNS01{Webhook: desec("dns.certplane.dev")}, []string{"e"}},
		{acmev1.ACMEChallengeSolverDNS01{Webhook: desec("acme.example.com")}, nil},
	} {
		if got := SecretNames(&acmev1.ACMEChallengeSolver{DNS01: &tc.solver}); !cmp.Equal(got, tc.want) {
			t.Errorf("%v, want %v", got, tc.want)
		}
	}
}
