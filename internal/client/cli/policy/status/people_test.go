package status

import (
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/holders"
	"github.com/certplane/certplane/internal/policy/quorum"
)

func automatically(p *v1alpha1.CertificatePolicy) {
	twoPeople(p)
	p.Spec.Approval.Renewals = v1alpha1.RenewAutomatic
}

// issued returns a certificate that is valid from and until hours from now.
func issued(t *testing.T, from, until int) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	hours := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: hours(from), NotAfter: hours(until)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(cert)
}

// What was renewed without people is counted as long as it is valid, also if the policy
// does not permit it any more.
func TestRenewing(t *testing.T) {
	s := &state{policies: []*v1alpha1.CertificatePolicy{
		policy("two", v1alpha1.PolicyLimit, automatically), policy("new", v1alpha1.PolicyLimit, automatically),
		policy("people", v1alpha1.PolicyLimit, twoPeople), policy("tried", v1alpha1.PolicyLimit, automatically, shadow),
	}}
	by := func(policy, reason, more string) []quorum.Condition {
		return []quorum.Condition{{Type: "Approved", Status: "True", Reason: reason, Message: `Approved by CertificatePolicy "` + policy + `" (generation 3)` + more}}
	}
	const renews = ": it renews the CertificateSigningRequest web-1, which people have approved"
	s.renewed(by("two", "PolicyApproved", renews), issued(t, -2, 10), now)
	s.renewed(by("two", "policy.certplane.dev", renews), issued(t, -1, 9), now)
	s.renewed(by("two", "PolicyApproved", renews), issued(t, -5, -1), now)
	s.renewed(by("two", "PolicyApproved", renews), nil, now)
	s.renewed(by("two", "PolicyApproved", ""), issued(t, -2, 20), now)
	s.renewed(by("two", "KubectlApprove", renews), issued(t, -2, 20), now)
	s.renewed(by("gone", "PolicyApproved", renews), issued(t, -1, 1), now)
	report := s.report(now)
	text := report.text(now)
	for _, want := range []string{
		"\nRenewed without people\n",
		"  gone  1 certificate    the oldest issued 60m ago, valid until 2026-11-24T13:00:00Z at the latest\n",
		"  new   no certificates\n",
		"  two   2 certificates   the oldest issued 120m ago, valid until 2026-11-24T22:00:00Z at the latest\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if len(report.Renewing) != 3 {
		t.Errorf("%+v", report.Renewing)
	}
}

// Who can impersonate a voter that a policy names could vote as one; if a policy names
// none, who can impersonate any user.
func TestImpersonators(t *testing.T) {
	role := func(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	}
	bind := func(role, group string) rbacv1.ClusterRoleBinding {
		return rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: group}},
		}
	}
	impersonate := func(resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}
	}
	s := &state{
		policies: []*v1alpha1.CertificatePolicy{
			policy("anybody", v1alpha1.PolicyLimit, twoPeople), policy("nobody", v1alpha1.PolicyAllow),
			policy("named", v1alpha1.PolicyLimit, twoPeople, func(p *v1alpha1.CertificatePolicy) {
				p.Spec.Approval.People.From = []v1alpha1.PeopleFrom{{Groups: []string{"pki"}}, {Users: []string{"bob"}}}
			}),
		},
		rbac: holders.Objects{
			ClusterRoles:        []rbacv1.ClusterRole{role("all", impersonate("users"), impersonate("groups")), role("bobs", impersonate("users", "bob"))},
			ClusterRoleBindings: []rbacv1.ClusterRoleBinding{bind("all", "admins"), bind("bobs", "helpers")},
		},
	}
	var got []string
	for _, row := range (&Report{Impersonators: s.impersonators()}).impersonatorRows() {
		got = append(got, strings.Join(row, " | "))
	}
	want := []string{
		"anybody | Group admins | as any user | impersonate on users | ClusterRoleBinding all",
		"named | Group admins | as Group pki, User bob | impersonate on groups, impersonate on users | ClusterRoleBinding all",
		"named | Group helpers | as User bob | impersonate on users | ClusterRoleBinding bobs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
