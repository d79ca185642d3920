package approverpolicy

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"

	approvermanager "github.com/cert-manager/approver-policy/pkg/approver/manager"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// Where certplane differs on purpose, it refuses what approver-policy approves.
// If approver-policy no longer does, the difference is gone, and its note in
// package crp with it.
func TestDifferences(t *testing.T) {
	openToAll := func(change func(*policy)) *policy {
		p := &policy{Spec: approverpolicy.Spec{Selector: approverpolicy.Selector{IssuerRef: &approverpolicy.IssuerSelector{}}}}
		p.Name, p.Status.Conditions = "p", readyCondition
		change(p)
		return p
	}
	inParts := constructedName(2, must(asn1.Marshal(asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("evil.example")})))
	applicationClass := asn1.RawValue{Class: asn1.ClassApplication, Tag: 2, Bytes: []byte("evil.example")}
	tests := []struct {
		reason  string
		policy  *policy
		names   []asn1.RawValue
		outcome v1alpha1.DecisionOutcome
		said    string
	}{
		{"a name in parts", openToAll(func(*policy) {}), []asn1.RawValue{inParts}, v1alpha1.OutcomeDeny, "spec.allowed.subjectAltName.unreadable"},
		{"a name of another class", openToAll(func(*policy) {}), []asn1.RawValue{applicationClass}, v1alpha1.OutcomeDeny, "spec.allowed.subjectAltName.unreadable"},
		{"a policy with a plugin that a version with it has called ready",
			openToAll(func(p *policy) { p.Spec.Plugins = map[string]approverpolicy.Plugin{"rego": {}} }), nil, v1alpha1.OutcomeLeave, "the policy has plugins"},
	}
	for _, tc := range tests {
		s := scenario{policies: []*policy{tc.policy}, request: requestFor(tc.names)}
		if theirs, err := s.theirs(t); err != nil || theirs.Result != approvermanager.ResultApproved {
			t.Errorf("%s: approver-policy says %+v, %v", tc.reason, theirs, err)
		}
		ours, err := s.ours()
		if err != nil || ours.Outcome != tc.outcome || !strings.Contains(ours.Event.Message, tc.said) {
			t.Errorf("%s: %+v, %v", tc.reason, ours, err)
		}
	}
}

func requestFor(names []asn1.RawValue) *cmv1.CertificateRequest {
	template := &x509.CertificateRequest{}
	if len(names) > 0 {
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: must(asn1.Marshal(names))}}
	}
	der := must(x509.CreateCertificateRequest(rand.Reader, template, keys()[2]))
	cr := &cmv1.CertificateRequest{}
	cr.Name, cr.Namespace = "web-1", "shop"
	cr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return cr
}
