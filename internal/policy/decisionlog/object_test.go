package decisionlog_test

import (
	"encoding/json"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/policy/request"
)

// A request that is read from a line is the one that was logged.
func TestObject(t *testing.T) {
	metadata := metav1.ObjectMeta{
		Name: "a", Namespace: "shop", UID: "1", CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{"a": "b"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metadata, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: "a.io/b", Request: requestPEM(t), Usages: []certificatesv1.KeyUsage{"server auth"},
	}, Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("issued")}}
	cr := &cmv1.CertificateRequest{ObjectMeta: metadata, Spec: cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: "i"}, Request: requestPEM(t)}}
	pcr := &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metadata, Spec: certificatesv1beta1.PodCertificateRequestSpec{
		SignerName: "a.io/b", PodName: "p", ServiceAccountName: "sa", ServiceAccountUID: "7", StubPKCS10Request: stub(t),
	}}
	who := request.Requester{Username: "alice", UID: "u", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	asCreated := func(r request.Request) request.Request { r.Requester = who; return r } // admission knows the requester
	for reason, r := range map[string]request.Request{
		"a CertificateSigningRequest": asCreated(request.FromCSR(csr)),
		"a CertificateRequest":        asCreated(request.FromCertificateRequest(cr)),
		"a PodCertificateRequest":     request.FromPodRequest(pcr),
	} {
		in := certpolicy.Input{Request: r, Time: now}
		object, err := decisionlog.Object(&r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(object), "managedFields") || strings.Contains(string(object), "issued") {
			t.Errorf("%s: the line has too much: %s", reason, object)
		}
		recorded, err := decisionlog.Read(decisionlog.Line(set(t).Decide(in), &in, object, true))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, recorded.Input.Request, cmpopts.IgnoreFields(request.Request{}, "Object", "Created", "PKCS10", "Key")); diff != "" {
			t.Errorf("%s: %s", reason, diff)
		}
	}
	if _, err := decisionlog.Object(&request.Request{}); err == nil {
		t.Error("a request of no object is logged")
	}
}

// Whether a built-in policy allows a request is a fact.
func TestBuiltIn(t *testing.T) {
	for reason, fact := range map[string]certpolicy.Fact[string]{
		"not known": {}, "none does": certpolicy.Known[string](nil), "one does": certpolicy.Known(new("builtin:selfnodeclient")),
	} {
		in := certpolicy.Input{Facts: certpolicy.Facts{BuiltIn: fact}}
		line := decisionlog.Line(&v1alpha1.PolicyDecision{Request: v1alpha1.DecidedRequest{Kind: v1alpha1.CertificateSigningRequests}}, &in, []byte("{}"), true)
		recorded, err := decisionlog.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fact, recorded.Input.Facts.BuiltIn); diff != "" {
			t.Errorf("%s: %s", reason, diff)
		}
	}
}

// With hashed names, nothing of a line names or quotes the request, wherever a
// decision may do so.
func TestHashed(t *testing.T) {
	const secret = "secret"
	violations := []v1alpha1.PolicyViolation{{Policy: "web", At: "certificate.names.dns", Reason: "NameNotPermitted", Value: secret, Message: secret, WouldPass: []string{secret}}}
	d := &v1alpha1.PolicyDecision{
		Request: v1alpha1.DecidedRequest{Namespace: secret, Name: secret, Requester: secret, Signer: "a.io/b", UID: "1"},
		Outcome: v1alpha1.OutcomeDeny, Reason: "NameNotPermitted", Message: secret, Violations: violations,
		Open: []v1alpha1.OpenCondition{{Policy: "web", Fact: "nodes/" + secret}},
		People: &v1alpha1.PeopleDecision{
			Votes: []v1alpha1.CountedVote{{User: secret, Because: secret, Override: secret}}, Requirements: []v1alpha1.PeopleMissing{{Policy: "two", OverriddenBy: secret}},
		},
		Considered: []v1alpha1.ConsideredPolicy{{Policy: "web", Because: secret}},
		Shadow:     []v1alpha1.ShadowDecision{{Policy: "next", Message: secret, Violations: violations}},
		Facts:      []v1alpha1.DecisionFact{{Object: "namespaces/" + secret}},
	}
	text, err := json.Marshal(decisionlog.Hashed(d))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("the line has a name: %s", text)
	}
	const digest = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // printf secret | sha256sum
	if n := strings.Count(string(text), digest); n != 8 {
		t.Errorf("%d digests of the name, want 8: %s", n, text)
	}
	if d.Message != secret || d.Violations[0].Value != secret || d.People.Votes[0].User != secret {
		t.Error("the decision itself has changed")
	}
}
