package policies_test

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/request"
)

// What only the request will have is open; all else is decided.
func TestPlannedRequest(t *testing.T) {
	crt := certificateFor("web", "www.shop.example.com")
	crt.Labels, crt.Annotations = map[string]string{"team": "shop"}, map[string]string{"a/b": "c", "d/e": "f"}
	crt.Spec.Duration = &metav1.Duration{Duration: 3600e9}
	crt.Spec.Usages = []cmv1.KeyUsage{"client auth"}
	who := request.User("system:serviceaccount:kube-system:cert-manager-certificates")
	in, cr, err := policies.PlannedRequest(crt, policies.CertificateRequester{User: who, Copied: issuance.CopiedAnnotations{"a/"}})
	if err != nil || cr.Name != "web-1" || !in.Request.IsPlanned() {
		t.Fatalf("%v, error %v", cr, err)
	}
	for expression, want := range map[string]v1alpha1.DecisionOutcome{
		"request.keyFingerprint == 'x'":                           v1alpha1.OutcomeWait,
		"certificate.keyFingerprint != 'x'":                       v1alpha1.OutcomeWait,
		"request.uid == 'x'":                                      v1alpha1.OutcomeWait,
		"requester.uid == 'x'":                                    v1alpha1.OutcomeWait,
		"'x' in requester.extra":                                  v1alpha1.OutcomeWait,
		"request.keyFingerprint == 'x' || true":                   v1alpha1.OutcomeLeave,
		"request.keyFingerprint == 'x' && request.isCA":           v1alpha1.OutcomeDeny,
		"request.keyType == 'ECDSAP256'":                          v1alpha1.OutcomeLeave,
		"request.keyType == 'RSA2048'":                            v1alpha1.OutcomeDeny,
		"request.signatureAlgorithm == 'ECDSA-SHA256'":            v1alpha1.OutcomeLeave,
		"request.origin == 'Certificate'":                         v1alpha1.OutcomeLeave,
		"owner.metadata.labels.team == 'shop'":                    v1alpha1.OutcomeLeave,
		"request.labels.team == 'shop'":                           v1alpha1.OutcomeLeave,
		"request.metadataAnnotations['a/b'] == 'c'":               v1alpha1.OutcomeLeave,
		"'d/e' in request.metadataAnnotations":                    v1alpha1.OutcomeDeny,
		"requester.serviceAccount.name.endsWith('-certificates')": v1alpha1.OutcomeLeave,
		"'system:serviceaccounts' in requester.groups":            v1alpha1.OutcomeLeave,
		"request.expirationSeconds == 3600":                       v1alpha1.OutcomeLeave,
		"request.usages == ['client auth']":                       v1alpha1.OutcomeLeave,
	} {
		p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.CertificatePolicySpec{
			Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"*"}},
			Rules: []v1alpha1.PolicyRule{{Name: "r", Expression: v1alpha1.CEL(expression)}},
		}}
		d := certpolicy.NewSet([]*v1alpha1.CertificatePolicy{p}, nil).Decide(in)
		if d.Outcome != want || strings.Contains(d.Message, "no value") {
			t.Errorf("%s: %s, %s", expression, d.Outcome, d.Message)
		}
	}
	crt.Spec.PrivateKey.Size = 7
	if _, _, err := policies.PlannedRequest(crt, policies.CertificateRequester{}); err == nil {
		t.Error("a key that cannot be made is planned")
	}
}
