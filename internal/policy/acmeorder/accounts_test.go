package acmeorder_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestAccountInForce(t *testing.T) {
	revoked := func(k *v1alpha1.AcmeExternalKey) { k.Spec.Revoked = true }
	optional := func(k *v1alpha1.AcmeExternalKey) { k.Spec.RequireAlways = new(false) }
	for _, tc := range []struct {
		reason string
		facts  acmeorder.AccountFacts
		status int
		detail string
	}{
		{"valid", facts(account(), nil), 0, ""},
		{"deactivated", facts(account(func(a *v1alpha1.AcmeAccount) { a.Status.State = "deactivated" }), nil), 401, "deactivated"},
		{"revoked by the server", facts(account(func(a *v1alpha1.AcmeAccount) { a.Status.State = "revoked" }), nil), 403, "account revoked"},
		{"revoked by a person", facts(account(func(a *v1alpha1.AcmeAccount) { a.Spec.Decision = "Revoked" }), nil), 403, "account revoked"},
		{"with a key", facts(bound(), externalKey(t)), 0, ""},
		{"with a revoked key", facts(bound(), externalKey(t, revoked)), 403, "account revoked: its external account key"},
		{"with a revoked key that it does not need", facts(bound(), externalKey(t, revoked, optional)), 0, ""},
		{"with a deleted key", facts(bound(), nil), 403, "account revoked"},
		{"with a deleted key that it did not need", facts(bound(func(a *v1alpha1.AcmeAccount) { a.Spec.ExternalKey.RequireAlways = new(false) }), nil), 0, ""},
		{"with a key made anew", facts(bound(), externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.UID = "other" })), 403, "account revoked"},
		{"with an expired key", facts(bound(), externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.Spec.Expires = moment(now.Add(-time.Hour)) })), 0, ""},
		{"without its ServiceAccount", acmeorder.AccountFacts{Account: account(), ServiceAccountGone: true}, 403, "account revoked"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			p := tc.facts.Problem()
			if tc.status == 0 {
				assertProblem(t, p, "", "")
				return
			}
			assertProblem(t, p, "unauthorized", tc.detail)
			if p != nil && (p.Status != tc.status || tc.status == 403 && !strings.HasPrefix(p.Detail, "account revoked")) {
				t.Errorf("%v", p)
			}
		})
	}
}

func TestTerms(t *testing.T) {
	e := endpointObject(func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.TermsOfService = "https://corp.example/tos/2" })
	old := facts(account(func(a *v1alpha1.AcmeAccount) {
		a.Status.Agreed = &v1alpha1.AcmeAgreement{URL: "https://corp.example/tos/1"}
	}), nil)
	for _, tc := range []struct {
		reason  string
		renewed time.Time
		kind    string
	}{
		{"no renewal", time.Time{}, "userActionRequired"},
		{"a late renewal", now.Add(30 * 24 * time.Hour), ""},
		{"an early renewal", now.Add(31 * 24 * time.Hour), "userActionRequired"},
		{"of an expired certificate", now.Add(-time.Hour), "userActionRequired"},
	} {
		p := old.Terms(&e.Spec, tc.renewed, now)
		assertProblem(t, p, tc.kind, "")
		if p != nil && (p.Instance != "https://corp.example/tos/2" || p.TermsOfService != p.Instance) {
			t.Errorf("%s: %+v", tc.reason, p)
		}
	}
}

func TestContacts(t *testing.T) {
	for _, tc := range []struct{ contact, kind string }{
		{"mailto:ops@shop.example", ""},
		{"MAILTO:ops+acme@shop.example", ""},
		{"tel:+1234", "unsupportedContact"},
		{"ops@shop.example", "unsupportedContact"},
		{"mailto:", "invalidContact"},
		{"mailto:ops", "invalidContact"},
		{"mailto:a@x.example,b@x.example", "invalidContact"},
		{"mailto:a%2Cb@x.example", "invalidContact"},
		{"mailto:a%40b@x.example", "invalidContact"},
		{"mailto:a@x.example?subject=x", "invalidContact"},
		{"mailto:a@x.example#x", "invalidContact"},
		{"mailto:a%0d%0ab@x.example", "invalidContact"},
		{"mailto:a%zz@x.example", "invalidContact"},
		{"mailto:ä@x.example", "invalidContact"},
		{"mailto:%C3%A4@x.example", "invalidContact"},
		{"mailto:a@" + strings.Repeat("x", 253) + ".example", "invalidContact"},
	} {
		t.Run(tc.contact, func(t *testing.T) {
			assertProblem(t, acmeorder.CheckContacts([]string{tc.contact}, false), tc.kind, "")
		})
	}
	assertProblem(t, acmeorder.CheckContacts(nil, true), "invalidContact", "required")
	assertProblem(t, acmeorder.CheckContacts(slices.Repeat([]string{"mailto:a@x.example"}, 11), false), "invalidContact", "more than 10")
}

func TestAdmitAccount(t *testing.T) {
	key := &v1alpha1.AcmeAccountKey{ObjectMeta: metav1.ObjectMeta{Name: "corp.k", UID: "key-object"}}
	limited := rfc8555.NewProblem(429, "rateLimited", "too many")
	tos := func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.TermsOfService = "https://corp.example/tos/2" }
	closed := func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.Admission = "ExternalKey" }
	approval := func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.Admission = "Approval" }
	deactivated := account(func(a *v1alpha1.AcmeAccount) { a.Status.State = "deactivated" })
	for _, tc := range []struct {
		reason       string
		asked        acmeorder.NewAccount
		change       func(*v1alpha1.AcmeEndpoint)
		kind, detail string
		status       int
		as           string
		existing     bool
	}{
		{"open", acmeorder.NewAccount{}, nil, "", "", 0, "acme-clients/corp", false},
		{"it exists, whatever else is asked", acmeorder.NewAccount{Key: key, Existing: facts(account(), nil), Binding: acmeorder.BindingWrong, Limited: limited}, tos, "", "", 0, "", true},
		{"it exists, deactivated", acmeorder.NewAccount{Key: key, Existing: facts(deactivated, nil)}, nil, "unauthorized", "", 401, "", true},
		{"a retired key", acmeorder.NewAccount{Key: key, Standing: acmeorder.KeyRetired}, nil, "unauthorized", "replaced", 403, "", false},
		{"a retired key that must have an account", acmeorder.NewAccount{Key: key, Standing: acmeorder.KeyRetired, OnlyReturnExisting: true}, nil, "accountDoesNotExist", "no account", 400, "", false},
		{"it is being made", acmeorder.NewAccount{Key: key, Standing: acmeorder.KeyUnsettled}, nil, "serverInternal", "", 503, "", false},
		{"debris", acmeorder.NewAccount{Key: key, Standing: acmeorder.KeyDebris}, nil, "", "", 0, "acme-clients/corp", false},
		{"only an existing one", acmeorder.NewAccount{OnlyReturnExisting: true, Limited: limited}, nil, "accountDoesNotExist", "", 400, "", false},
		{"limited", acmeorder.NewAccount{Limited: limited}, tos, "rateLimited", "", 429, "", false},
		{"terms", acmeorder.NewAccount{Contacts: []string{"x"}}, tos, "userActionRequired", "", 403, "", false},
		{"terms, agreed", acmeorder.NewAccount{Agreed: true}, tos, "", "", 0, "acme-clients/corp", false},
		{"a bad contact", acmeorder.NewAccount{Contacts: []string{"x"}}, closed, "unsupportedContact", "", 400, "", false},
		{"no binding", acmeorder.NewAccount{}, closed, "externalAccountRequired", "", 403, "", false},
		{"no binding, with approval", acmeorder.NewAccount{}, approval, "", "", 0, "acme-clients/corp", false},
		{"a wrong binding that is not needed", acmeorder.NewAccount{Binding: acmeorder.BindingWrong}, nil, "unauthorized", "the external account binding is not valid", 403, "", false},
		{"bound", acmeorder.NewAccount{Binding: acmeorder.BindingGood, ExternalKey: externalKey(t)}, closed, "", "", 0, "shop/web", false},
		{"bound, though not needed", acmeorder.NewAccount{Binding: acmeorder.BindingGood, ExternalKey: externalKey(t)}, nil, "", "", 0, "shop/web", false},
		{"a revoked key", acmeorder.NewAccount{Binding: acmeorder.BindingGood, ExternalKey: externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.Spec.Revoked = true })}, closed, "unauthorized", "the external account binding is not valid", 403, "", false},
		{"an expired key", acmeorder.NewAccount{Binding: acmeorder.BindingGood, ExternalKey: externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.Spec.Expires = moment(now) })}, closed, "unauthorized", "the external account binding is not valid", 403, "", false},
		{"a used key", acmeorder.NewAccount{Binding: acmeorder.BindingGood, ExternalKey: externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.Spec.MaxAccounts, k.Status.Accounts = 1, 1 })}, closed, "unauthorized", "the external account binding is not valid", 403, "", false},
		{"a key of another endpoint", acmeorder.NewAccount{Binding: acmeorder.BindingGood, ExternalKey: externalKey(t, func(k *v1alpha1.AcmeExternalKey) { k.Spec.Endpoint = "other" })}, closed, "unauthorized", "the external account binding is not valid", 403, "", false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := endpoint(t)
			if tc.change != nil {
				e = endpoint(t, tc.change)
			}
			d, p := acmeorder.AdmitAccount(tc.asked, e, now)
			assertProblem(t, p, tc.kind, tc.detail)
			if p != nil && p.Status != tc.status {
				t.Errorf("status %d, want %d", p.Status, tc.status)
			}
			if (d.Existing != nil) != tc.existing {
				t.Errorf("existing: %v", d.Existing)
			}
			if as := d.Spec.ServiceAccount; tc.as != "" && as.Namespace+"/"+as.Name != tc.as {
				t.Errorf("as %v, want %s", as, tc.as)
			}
			if tc.asked.Standing == acmeorder.KeyDebris && d.Replace != "key-object" {
				t.Errorf("replaces %q", d.Replace)
			}
		})
	}
}

func TestStandingOfKey(t *testing.T) {
	key := func(name string, age time.Duration) *v1alpha1.AcmeAccountKey {
		return &v1alpha1.AcmeAccountKey{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: now.Add(-age)}}}
	}
	retired := key("corp.old", time.Hour)
	retired.Spec.Retired = moment(now)
	current := key("corp.current", time.Hour)
	for _, tc := range []struct {
		reason  string
		key     *v1alpha1.AcmeAccountKey
		account *v1alpha1.AcmeAccount
		current *v1alpha1.AcmeAccountKey
		want    acmeorder.KeyStanding
	}{
		{"in force", current, account(), current, acmeorder.KeyInForce},
		{"retired", retired, account(), current, acmeorder.KeyRetired},
		{"retired, and its account is gone", retired, nil, nil, acmeorder.KeyRetired},
		{"replaced, and not marked", key("corp.old", 2*time.Hour), account(), current, acmeorder.KeyRetired},
		{"its account is not there yet", key("corp.new", time.Second), nil, nil, acmeorder.KeyUnsettled},
		{"its account never came", key("corp.new", time.Minute), nil, nil, acmeorder.KeyDebris},
		{"a change of keys is under way", key("corp.new", time.Second), account(), current, acmeorder.KeyUnsettled},
		{"a change of keys was stopped", key("corp.new", time.Minute), account(), current, acmeorder.KeyDebris},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := acmeorder.StandingOfKey(tc.key, tc.account, tc.current, now); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestUpdateAccount(t *testing.T) {
	e := endpointObject(func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.TermsOfService = "https://corp.example/tos/2" })
	for _, tc := range []struct {
		reason string
		update acmeorder.AccountUpdate
		kind   string
		want   func(s *v1alpha1.AcmeAccountStatus) bool
	}{
		{"nothing", acmeorder.AccountUpdate{}, "", func(s *v1alpha1.AcmeAccountStatus) bool { return s == nil }},
		{"valid", acmeorder.AccountUpdate{Status: "valid"}, "", func(s *v1alpha1.AcmeAccountStatus) bool { return s == nil }},
		{"contacts", acmeorder.AccountUpdate{Contacts: &[]string{"mailto:a@x.example"}}, "", func(s *v1alpha1.AcmeAccountStatus) bool { return len(s.Contacts) == 1 }},
		{"no contacts", acmeorder.AccountUpdate{Contacts: &[]string{}}, "", func(s *v1alpha1.AcmeAccountStatus) bool { return len(s.Contacts) == 0 }},
		{"bad contacts", acmeorder.AccountUpdate{Contacts: &[]string{"x"}}, "unsupportedContact", nil},
		{"agreement", acmeorder.AccountUpdate{Agreed: true}, "", func(s *v1alpha1.AcmeAccountStatus) bool { return s.Agreed.URL == "https://corp.example/tos/2" }},
		{"deactivated", acmeorder.AccountUpdate{Status: "deactivated"}, "", func(s *v1alpha1.AcmeAccountStatus) bool { return s.State == "deactivated" && s.Ended != nil }},
		{"revoked", acmeorder.AccountUpdate{Status: "revoked"}, "malformed", nil},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s, p := acmeorder.UpdateAccount(account(), tc.update, &e.Spec, now)
			assertProblem(t, p, tc.kind, "")
			if tc.want != nil && !tc.want(s) {
				t.Errorf("%+v", s)
			}
		})
	}
}
