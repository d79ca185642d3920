package acmeorder_test

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestJudge(t *testing.T) {
	said := func(reason, message string) *acmeorder.Said {
		return &acmeorder.Said{Reason: reason, Message: message}
	}
	approved := said("AutoApproved", "")
	for _, tc := range []struct {
		reason       string
		standing     acmeorder.Standing
		hide         bool
		kind, detail string
		waits        string
	}{
		{"nothing is said", acmeorder.Standing{}, false, "", "", "approval"},
		{"approved", acmeorder.Standing{Approved: approved}, false, "", "", "signer"},
		{"delayed", acmeorder.Standing{Approved: approved, Delayed: said("SignerUnavailable", "down")}, false, "", "", "signer"},
		{"denied", acmeorder.Standing{Denied: said("NotInInventory", "order a host first")}, false, "unauthorized", "denied: NotInInventory: order a host first", ""},
		{"denied, reasons are hidden", acmeorder.Standing{Denied: said("NotInInventory", "order a host first")}, true, "unauthorized", "refused by policy (reference order1)", ""},
		{"denied and issued", acmeorder.Standing{Denied: said("No", ""), Certificate: []byte("x")}, false, "unauthorized", "", ""},
		{"names", acmeorder.Standing{Approved: approved, Failed: said("NameNotPermitted", "b is not permitted")}, false, "rejectedIdentifier", "b is not permitted", ""},
		{"a rule's reason about names", acmeorder.Standing{Approved: approved, Failed: said("ForeignName", "x")}, false, "badCSR", "ForeignName: x", ""},
		{"a rule", acmeorder.Standing{Approved: approved, Failed: said("RuleViolated", "not on Sundays")}, false, "badCSR", "not on Sundays", ""},
		{"the request", acmeorder.Standing{Approved: approved, Failed: said("InvalidRequest", "x")}, false, "badCSR", "x", ""},
		{"the key", acmeorder.Standing{Approved: approved, Failed: said("UnsupportedKeyType", "x")}, false, "badCSR", "x", ""},
		{"the subject", acmeorder.Standing{Approved: approved, Failed: said("SubjectNotPermitted", "x")}, false, "badCSR", "SubjectNotPermitted: x", ""},
		{"the signer's profile", acmeorder.Standing{Approved: approved, Failed: said("SignerValidationFailure", "x")}, false, "badCSR", "x", ""},
		{"a broken signer", acmeorder.Standing{Approved: approved, Failed: said("SignerUnavailable", "x")}, false, "serverInternal", "x", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			v := acmeorder.Judge(tc.standing, "order1", tc.hide)
			assertProblem(t, v.Problem, tc.kind, tc.detail)
			if v.WaitsFor != tc.waits || v.Denied != (tc.standing.Denied != nil) || v.Issued != nil {
				t.Errorf("%+v", v)
			}
		})
	}
	if v := acmeorder.Judge(acmeorder.Standing{Approved: approved, Certificate: []byte("x")}, "order1", false); string(v.Issued) != "x" || v.Problem != nil {
		t.Errorf("issued: %+v", v)
	}
}

func TestStandings(t *testing.T) {
	csr := &certificatesv1.CertificateSigningRequest{}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "A"},
		{Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "NoName", Message: "m"},
	}
	if s := acmeorder.StandingOfCSR(csr); s.Approved == nil || s.Failed == nil || s.Failed.Reason != "NoName" || s.Denied != nil {
		t.Errorf("%+v", s)
	}
	cr := &cmv1.CertificateRequest{}
	cr.Status.Conditions = []cmv1.CertificateRequestCondition{
		{Type: cmv1.CertificateRequestConditionApproved, Status: cmmeta.ConditionTrue},
		{Type: cmv1.CertificateRequestConditionReady, Status: cmmeta.ConditionFalse, Reason: "Failed", Message: "m"},
		{Type: cmv1.CertificateRequestConditionInvalidRequest, Status: cmmeta.ConditionTrue, Reason: "InvalidRequest"},
	}
	if s := acmeorder.StandingOfCertificateRequest(cr); s.Approved == nil || s.Failed == nil || s.Failed.Reason != "InvalidRequest" || s.Failed.Message != "m" {
		t.Errorf("%+v", s)
	}
	cr.Status.Conditions = []cmv1.CertificateRequestCondition{{Type: cmv1.CertificateRequestConditionReady, Status: cmmeta.ConditionFalse, Reason: "Pending", Message: "soon"}}
	if s := acmeorder.StandingOfCertificateRequest(cr); s.Delayed == nil || s.Failed != nil || s.Approved != nil {
		t.Errorf("%+v", s)
	}
}

func TestCreateRefused(t *testing.T) {
	for _, tc := range []struct {
		code          int
		message, kind string
	}{
		{403, "exceeded quota: orders", "rateLimited"}, {403, "a policy says no", "unauthorized"}, {422, "invalid", "unauthorized"},
		{500, "x", ""}, {503, "x", ""}, {409, "x", ""}, {401, "x", ""}, {429, "x", ""},
	} {
		assertProblem(t, acmeorder.CreateRefused(tc.code, tc.message), tc.kind, "")
	}
}
