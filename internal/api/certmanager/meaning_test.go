package certmanager_test

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

func TestSignerNames(t *testing.T) {
	tests := []struct {
		name string
		want certmanager.Signer
		ok   bool
	}{
		{"issuers.cert-manager.io/team.ca", certmanager.Signer{Kind: "Issuer", Namespace: "team", Name: "ca"}, true},
		{"issuers.cert-manager.io/team.ca.v2", certmanager.Signer{Kind: "Issuer", Namespace: "team", Name: "ca.v2"}, true},
		{"clusterissuers.cert-manager.io/ca", certmanager.Signer{Kind: "ClusterIssuer", Name: "ca"}, true},
		{"clusterissuers.cert-manager.io/team.ca", certmanager.Signer{Kind: "ClusterIssuer", Name: "team.ca"}, true},
		{name: "issuers.cert-manager.io/ca"},
		{name: "issuers.cert-manager.io/.ca"},
		{name: "issuers.cert-manager.io/team."},
		{name: "issuers.cert-manager.io/"},
		{name: "clusterissuers.cert-manager.io/"},
		{name: "clusterissuers.cert-manager.io"},
		{name: "issuers.cert-manager.io/team.ca/x"},
		{name: "certificates.cert-manager.io/team.ca"},
		{name: "issuers.example.com/team.ca"},
	}
	for _, tc := range tests {
		got, ok := certmanager.ParseSignerName(tc.name)
		if ok != tc.ok || ok && got != tc.want {
			t.Errorf("%s: %+v, %t", tc.name, got, ok)
		}
		if ok && got.String() != tc.name {
			t.Errorf("%s is written %s", tc.name, got)
		}
	}
}

func TestIssuerReferences(t *testing.T) {
	plain, full := cmmeta.IssuerReference{Name: "a"}, cmmeta.IssuerReference{Name: "a", Kind: "Issuer", Group: "cert-manager.io"}
	if !certmanager.SameIssuer(plain, full) || !certmanager.IsBuiltIn(plain) || !certmanager.IsBuiltIn(full) {
		t.Error("an empty kind is not Issuer, or an empty group not cert-manager.io")
	}
	for _, other := range []cmmeta.IssuerReference{{Name: "b"}, {Name: "a", Kind: "ClusterIssuer"}, {Name: "a", Group: "example.com"}} {
		if certmanager.SameIssuer(plain, other) {
			t.Errorf("%+v is taken for %+v", other, plain)
		}
	}
}

// The time changes only with the status, and entries keep their places.
func TestConditions(t *testing.T) {
	first, later := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	cr := &cmv1.CertificateRequest{}
	certmanager.SetRequestCondition(cr, "Ready", "False", "Pending", "wait", first)
	certmanager.SetRequestCondition(cr, "Approved", "True", "Me", "fine", first)
	certmanager.SetRequestCondition(cr, "Ready", "False", "Failed", "no", later)
	want := []cmv1.CertificateRequestCondition{
		{Type: "Ready", Status: "False", Reason: "Failed", Message: "no", LastTransitionTime: &first},
		{Type: "Approved", Status: "True", Reason: "Me", Message: "fine", LastTransitionTime: &first},
	}
	if diff := cmp.Diff(want, cr.Status.Conditions); diff != "" {
		t.Error(diff)
	}
	certmanager.SetRequestCondition(cr, "Ready", "True", "Issued", "", later)
	if ready := certmanager.RequestCondition(cr, "Ready"); *ready.LastTransitionTime != later || certmanager.ReadyReason(cr) != "Issued" || !certmanager.RequestIs(cr, "Ready") {
		t.Errorf("Ready is %+v", ready)
	}

	crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	certmanager.SetCertificateCondition(crt, "Issuing", "True", "Test", "", first)
	if issuing := certmanager.CertificateCondition(crt, "Issuing"); issuing.ObservedGeneration != 3 || *issuing.LastTransitionTime != first {
		t.Errorf("Issuing is %+v", issuing)
	}
	certmanager.RemoveCertificateCondition(crt, "Issuing")
	if len(crt.Status.Conditions) != 0 || certmanager.CertificateIs(crt, "Issuing") {
		t.Errorf("conditions: %+v", crt.Status.Conditions)
	}

	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	certmanager.SetIssuerCondition(issuer, "Ready", "True", "KeyPairVerified", "", first)
	certmanager.SetIssuerCondition(issuer, "Ready", "True", "IsReady", "", later)
	if ready := certmanager.IssuerCondition(issuer, "Ready"); ready.ObservedGeneration != 4 || *ready.LastTransitionTime != first || ready.Reason != "IsReady" || !certmanager.IssuerIs(issuer, "Ready") {
		t.Errorf("Ready is %+v", ready)
	}
}
