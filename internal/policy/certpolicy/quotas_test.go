package certpolicy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// usedUp is a quota of 2 certificates of which nothing is left.
var usedUp = certpolicy.QuotaUse{Used: 2, Again: now.Add(10 * time.Minute)}

const (
	hourly   = `quotas: [{name: hourly, certificates: 2, per: 1h, by: Requester}]`
	exceeded = "Deny; p quotas[hourly] QuotaExceeded=alice"
)

func quotaFields() map[string][]fieldCase {
	field := func(without string, instead any) fieldCase {
		return fieldCase{spec: hourly, ask: func(a *asked) { a.used = map[string]certpolicy.QuotaUse{"hourly": usedUp} },
			with: exceeded, without: without, instead: instead}
	}
	per := field(exceeded, "2h")
	per.message = "the quota hourly of 2 certificates in 1h for each Requester is used up; a request fits again at 2026-11-22T09:10:00Z"
	return map[string][]fieldCase{
		"quotas[].name":         {field("Approve", "daily")},
		"quotas[].certificates": {field("Approve", 3)},
		"quotas[].per":          {per},
		"quotas[].by":           {field("Deny; p quotas[hourly] QuotaExceeded=example.com/web", "Signer")},
	}
}

// The outcome with a quota: it refuses what does not fit, but never what has been
// counted, and never before a request is stored.
func TestQuotas(t *testing.T) {
	full := func(a *asked) { a.used = map[string]certpolicy.QuotaUse{"hourly": usedUp} }
	allow := strings.Replace(everything, "effect: Allow", "effect: Allow\n"+hourly, 1)
	if allow == everything {
		t.Fatal("the policy has no quota")
	}
	limit := "effect: Limit\nmatch: {signers: ['*']}\n" + hourly
	for _, tc := range []struct {
		reason   string
		policies map[string]string
		ask      []func(*asked)
		want     string
	}{
		{"room", map[string]string{"p": allow}, nil, "Approve"},
		{"an Allow", map[string]string{"p": allow}, fns(full), exceeded},
		{"another Allow without a quota", map[string]string{"p": allow, "q": everything}, fns(full), "Approve"},
		{"a Limit, whoever allows it", map[string]string{"p": limit, "q": everything}, fns(full), exceeded},
		{"a Limit, and nobody allows it", map[string]string{"p": limit}, fns(full), exceeded},
		{"nobody allows it, and there is room", map[string]string{"p": limit}, nil, "Leave"},
		{"counted before", map[string]string{"p": limit, "q": everything}, fns(func(a *asked) {
			a.used = map[string]certpolicy.QuotaUse{"hourly": {Used: 2, Counted: true, Again: now.Add(time.Minute)}}
		}), "Approve"},
		{"when the request is created", map[string]string{"p": limit, "q": everything}, fns(full, func(a *asked) { a.stage = v1alpha1.StageCreate }), "Approve"},
		{"when a Certificate is written", map[string]string{"p": allow}, fns(full, func(a *asked) { a.stage = v1alpha1.StageOwner }), "Approve"},
		{"when it is signed", map[string]string{"p": allow}, fns(full, func(a *asked) { a.stage = v1alpha1.StageSign }), exceeded},
		{"not known", map[string]string{"p": allow}, fns(func(a *asked) { a.quotasUnknown = true }), "Wait; p quotas[hourly] wants quotas/p/hourly"},
		{"in the shadow", map[string]string{"p": "mode: Shadow\n" + limit, "q": everything}, fns(full), "Approve"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := brief(decide(t, set(t, tc.policies), of(csrs).but(tc.ask...))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// An exception lets a request through, which then counts although it does not
// fit.
func TestQuotaException(t *testing.T) {
	s := setWith(t, map[string]string{"p": "effect: Limit\nmatch: {signers: ['*']}\n" + hourly, "q": everything}, map[string]string{
		"x": `{policies: [p], items: ["quotas[hourly]"], values: [alice], reason: test, notAfter: "2026-12-01T00:00:00Z", match: {signers: ["*"], requesters: {users: [alice, bob]}}}`,
	})
	for user, want := range map[string]string{"alice": "Approve; (p quotas[hourly] QuotaExceeded=alice by x)", "bob": "Deny; p quotas[hourly] QuotaExceeded=bob"} {
		in := of(csrs).but(func(a *asked) {
			a.user, a.used = user, map[string]certpolicy.QuotaUse{"hourly": usedUp}
		}).inputFor(t, s)
		d := s.Decide(in)
		if got := brief(d); got != want {
			t.Errorf("%s: got %s, want %s", user, got, want)
		}
		counts := s.Counts(d, &in.Request)
		if counted := len(counts) == 1 && counts[0].Over; counted != (user == "alice") {
			t.Errorf("%s counts in %+v", user, counts)
		}
	}
}

// An approval counts in the quotas of the Limits that apply, and of the Allow
// policy that lets it through.
func TestCounts(t *testing.T) {
	spec := func(effect, more, quota string) string {
		return fmt.Sprintf("effect: %s\nmatch: {signers: ['*'], requesters: {users: [alice]}}\n%s\nquotas: [{name: %s, certificates: 2, per: 1h, by: Policy}]", effect, more, quota)
	}
	const usages = "certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}\n"
	s := set(t, map[string]string{
		"limit": spec("Limit", "", "a"), "shadow": spec("Limit", "mode: Shadow", "b"), "allow": spec("Allow", usages, "c"),
		"later": spec("Allow", usages, "d"), "leave": spec("Allow", usages+"approval: {mode: Leave}", "e"),
	})
	for _, tc := range []struct {
		user, used string
		want       []string
	}{
		{"alice", "", []string{"limit/a", "allow/c"}},
		{"alice", "c", []string{"limit/a", "later/d"}},
		{"alice", "c,d", []string{"limit/a", "leave/e"}},
		{"alice", "a", nil},
		{"bob", "", nil},
	} {
		in := of(csrs).but(func(a *asked) {
			a.user, a.used = tc.user, map[string]certpolicy.QuotaUse{}
			for _, name := range strings.Split(tc.used, ",") {
				a.used[name] = usedUp
			}
		}).inputFor(t, s)
		var got []string
		for _, q := range s.Counts(s.Decide(in), &in.Request) {
			got = append(got, q.Policy+"/"+q.Name)
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s with %q used counts in %v, want %v", tc.user, tc.used, got, tc.want)
		}
	}
}

// What a request counts for, of each kind. One that has nothing of the kind counts
// for its requester.
func TestQuotaKeys(t *testing.T) {
	account := func(a *asked) { a.user = "system:serviceaccount:ops:robot" }
	node := func(a *asked) { a.user = "system:node:n7" }
	for _, tc := range []struct {
		by   v1alpha1.QuotaBy
		ask  asked
		want string
	}{
		{v1alpha1.QuotaByPolicy, of(csrs), ""},
		{v1alpha1.QuotaByRequester, of(csrs), "alice"},
		{v1alpha1.QuotaByRequester, of(pcrs), "system:serviceaccount:shop:web"},
		{v1alpha1.QuotaBySigner, of(csrs), "example.com/web"},
		{v1alpha1.QuotaBySigner, of(crs), "clusterissuers.cert-manager.io/internal"},
		{v1alpha1.QuotaByNamespace, of(crs), "shop"},
		{v1alpha1.QuotaByNamespace, of(pcrs), "shop"},
		{v1alpha1.QuotaByNamespace, of(csrs).but(account), "ops"},
		{v1alpha1.QuotaByNamespace, of(csrs), "requester alice"},
		{v1alpha1.QuotaByServiceAccount, of(csrs).but(account), "ops/robot"},
		{v1alpha1.QuotaByServiceAccount, of(pcrs), "shop/web"},
		{v1alpha1.QuotaByServiceAccount, of(crs), "requester alice"},
		{v1alpha1.QuotaByNode, of(csrs).but(node), "n7"},
		{v1alpha1.QuotaByNode, of(pcrs), "n1"},
		{v1alpha1.QuotaByNode, of(pcrs).but(func(a *asked) { a.podUnknown = true }), "n1"},
		{v1alpha1.QuotaByNode, of(csrs), "requester alice"},
		{v1alpha1.QuotaByPod, of(pcrs), "shop/web-0/p1"},
	} {
		kinds := "[CertificateSigningRequest, PodCertificateRequest, CertificateRequest]"
		switch tc.by {
		case v1alpha1.QuotaByNode:
			kinds = "[CertificateSigningRequest, PodCertificateRequest]"
		case v1alpha1.QuotaByPod:
			kinds = "[PodCertificateRequest]"
		}
		s := set(t, map[string]string{"p": fmt.Sprintf("effect: Limit\nmatch: {signers: ['*'], kinds: %s}\nquotas: [{name: q, certificates: 2, per: 1h, by: %s}]", kinds, tc.by)})
		r := tc.ask.request(t)
		got := s.Quotas(&r)
		if len(got) != 1 || got[0].Key != tc.want {
			t.Errorf("by %s, a %s counts for %+v, want %q", tc.by, tc.ask.kind, got, tc.want)
		}
	}
}

// manyQuotas returns n quotas as a policy has them.
func manyQuotas(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("{name: q%d, certificates: 1, per: 1h, by: Policy}", i))
	}
	return strings.Join(all, ", ")
}

// What a policy in the shadow would do is told by what the policy has counted that
// it replaces.
func TestQuotaInTheShadow(t *testing.T) {
	s := set(t, map[string]string{"p": everything, "next": "mode: Shadow\nreplaces: p\neffect: Limit\nmatch: {signers: ['*']}\n" + hourly})
	in := of(csrs).but(func(a *asked) { a.used = map[string]certpolicy.QuotaUse{"hourly": usedUp} }).inputFor(t, s)
	for q := range maps.Keys(in.Facts.Quotas) {
		if q.Policy != "p" {
			t.Errorf("it counts in %+v", q)
		}
	}
	d := s.Decide(in)
	if got := brief(d); got != "Approve" || len(d.Shadow) != 1 || d.Shadow[0].Outcome != v1alpha1.OutcomeDeny {
		t.Errorf("got %s, in the shadow %+v", got, d.Shadow)
	}
	if counts := s.Counts(d, &in.Request); len(counts) > 0 {
		t.Errorf("it counts in %+v", counts)
	}
}

// Only of policies that are about a new request it is said that there is no room.
func TestUsedUp(t *testing.T) {
	s := set(t, map[string]string{
		"open": "effect: Limit\nmatch: {signers: ['*']}\n" + hourly, "closed": "effect: Limit\ndisclosure: Reason\nmatch: {signers: ['*']}\n" + hourly,
		"other": "effect: Limit\nmatch: {signers: ['*'], requesters: {users: [bob]}}\n" + hourly,
	})
	in := of(csrs).but(func(a *asked) {
		a.stage, a.used = v1alpha1.StageCreate, map[string]certpolicy.QuotaUse{"hourly": usedUp}
	}).inputFor(t, s)
	want := []string{
		"certificate policy closed: the request is not permitted now (QuotaExceeded)",
		"certificate policy open: the quota hourly of 2 certificates in 1h for each Requester is used up; a request fits again at 2026-11-22T09:10:00Z",
	}
	if got := s.UsedUp(s.Decide(in), &in); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
