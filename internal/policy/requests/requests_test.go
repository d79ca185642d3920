package requests

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type change func(*cmv1.CertificateRequest)

func request(changes ...change) *cmv1.CertificateRequest {
	cr := &cmv1.CertificateRequest{}
	for _, change := range changes {
		change(cr)
	}
	return cr
}

func is(kind cmv1.CertificateRequestConditionType) change {
	return func(cr *cmv1.CertificateRequest) {
		certmanager.SetRequestCondition(cr, kind, cmmeta.ConditionTrue, "Test", "", metav1.NewTime(now))
	}
}

func ready(reason string) change {
	return func(cr *cmv1.CertificateRequest) {
		certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, reason, "", metav1.NewTime(now))
	}
}

func of(group string) change {
	return func(cr *cmv1.CertificateRequest) { cr.Spec.IssuerRef.Group = group }
}

func TestDue(t *testing.T) {
	const (
		approved = cmv1.CertificateRequestConditionApproved
		deniedIs = cmv1.CertificateRequestConditionDenied
		invalid  = cmv1.CertificateRequestConditionInvalidRequest
	)
	certificate := func(cr *cmv1.CertificateRequest) { cr.Status.Certificate = []byte("some") }
	told := func(cr *cmv1.CertificateRequest) {
		certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, "Denied", MessageDenied, metav1.NewTime(now))
		cr.Status.FailureTime = new(metav1.NewTime(now))
	}
	tests := []struct {
		reason string
		cr     *cmv1.CertificateRequest
		want   Step
	}{
		{"new", request(), Await},
		{"approved", request(is(approved)), Sign},
		{"with the group spelled out", request(is(approved), of("cert-manager.io")), Sign},
		{"of somebody else's issuer", request(is(approved), of("example.com")), External},
		{"of somebody else's issuer, not approved", request(of("example.com")), External},
		{"of somebody else's issuer, who has begun", request(is(approved), of("example.com"), ready("Pending")), None},
		{"of somebody else's issuer, invalid", request(of("example.com"), is(invalid)), None},
		{"of somebody else's issuer, denied", request(is(deniedIs), of("example.com")), None},
		{"waiting", request(is(approved), ready("Pending")), Sign},
		{"denied", request(is(deniedIs)), Deny},
		{"denied while it failed", request(is(deniedIs), ready("Failed")), Deny},
		{"denied, and that is said", request(is(deniedIs), told), None},
		{"denied, and that is half told", request(is(deniedIs), ready("Denied")), Deny},
		{"denied and invalid", request(is(deniedIs), is(invalid)), Deny},
		{"said to be denied, by nobody", request(is(approved), ready("Denied")), Sign},
		{"invalid", request(is(approved), is(invalid)), None},
		{"invalid and not approved", request(is(invalid)), None},
		{"failed", request(is(approved), ready("Failed")), None},
		{"issued", request(is(approved), ready("Issued")), None},
		{"with a certificate that nobody has vouched for", request(is(approved), ready("Pending"), certificate), None},
		{"with a reason that nobody knows", request(is(approved), ready("Odd")), Sign},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if got := Due(tc.cr); got != tc.want {
				t.Errorf("step %d, want %d", got, tc.want)
			}
		})
	}
}

func TestUndecided(t *testing.T) {
	for _, tc := range []struct {
		reason string
		cr     *cmv1.CertificateRequest
		want   bool
	}{
		{"new", request(), true},
		{"of somebody else's issuer", request(of("example.com")), true},
		{"pending", request(ready("Pending")), true},
		{"invalid", request(is(cmv1.CertificateRequestConditionInvalidRequest)), true},
		{"approved", request(is(cmv1.CertificateRequestConditionApproved)), false},
		{"denied", request(is(cmv1.CertificateRequestConditionDenied)), false},
		{"failed", request(ready("Failed")), false},
		{"issued", request(ready("Issued")), false},
	} {
		if got := Undecided(tc.cr); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}

func TestObstacleOf(t *testing.T) {
	issuer := func(config cmv1.IssuerConfig, ready cmmeta.ConditionStatus) cmv1.GenericIssuer {
		issuer := &cmv1.Issuer{Spec: cmv1.IssuerSpec{IssuerConfig: config}}
		if ready != "" {
			certmanager.SetIssuerCondition(issuer, cmv1.IssuerConditionReady, ready, "Because", "it is so", metav1.NewTime(now))
		}
		return issuer
	}
	ca, acme := cmv1.IssuerConfig{CA: &cmv1.CAIssuer{}}, cmv1.IssuerConfig{Vault: &cmv1.VaultIssuer{}}
	for _, tc := range []struct {
		reason string
		issuer cmv1.GenericIssuer
		want   string
		says   string
	}{
		{"none", nil, ReasonNotFound, `Referenced "Issuer" not found: there is no Issuer named ca in the namespace shop`},
		{"without a type", issuer(cmv1.IssuerConfig{}, "True"), ReasonTypeMissing, "Missing issuer type"},
		{"new", issuer(ca, ""), ReasonNotReady, "it has not been checked yet"},
		{"not ready", issuer(ca, "False"), ReasonNotReady, "Because: it is so"},
		{"of a type that nobody works for", issuer(acme, "True"), ReasonNotReady, "issuers of type vault sign nothing here, as this build of certplane does not support them"},
		{"ready", issuer(ca, "True"), "", ""},
	} {
		got := ObstacleOf(tc.issuer, certmanager.Signer{Kind: cmv1.IssuerKind, Namespace: "shop", Name: "ca"}, func(t certmanager.IssuerType) bool {
			return t == certmanager.TypeCA || t == certmanager.TypeSelfSigned
		})
		if got.Reason != tc.want || !strings.Contains(got.Message, tc.says) || got.None() != (tc.want == "") {
			t.Errorf("%s: %+v", tc.reason, got)
		}
	}
}
