package explain

import (
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// A CertificateSigningRequest that names an ACME issuer leads to its Order and the
// slowest Challenge.
func TestSigningRequestToACME(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, certmanager.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	request := &csr{ObjectMeta: metav1.ObjectMeta{Name: "host", UID: "uid-host"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "issuers.cert-manager.io/shop.le"}}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "le"}}
	issuer.Spec.ACME = &acmev1.ACMEIssuer{}
	issuer.Status.ACME = &acmev1.ACMEIssuerStatus{URI: "https://ca.example/acct/1"}
	certmanager.SetIssuerCondition(issuer, cmv1.IssuerConditionReady, cmmeta.ConditionTrue, "Registered", "registered", metav1.NewTime(now))
	order := &acmev1.Order{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "host-1", UID: "uid-order",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(request, certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))},
	}}
	order.Spec.IssuerRef = cmmeta.IssuerReference{Name: "le"}
	order.Status = acmev1.OrderStatus{URL: "https://ca.example/order/1", FinalizeURL: "https://ca.example/finalize/1", State: acmev1.Pending}
	challenge := &acmev1.Challenge{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "host-1-2", UID: "uid-challenge",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(order, acmev1.SchemeGroupVersion.WithKind(acmev1.OrderKind))},
	}}
	challenge.Spec.DNSName, challenge.Spec.Type, challenge.Spec.Token = "a.example.com", acmev1.ACMEChallengeTypeHTTP01, "token"
	challenge.Status = acmev1.ChallengeStatus{Processing: true, Presented: true, State: acmev1.Pending, Reason: "Waiting for HTTP-01 challenge propagation: wrong status code '404', expected '200'"}
	objects := fake.NewClientBuilder().WithScheme(kinds).WithObjects(request, issuer, order, challenge).
		WithIndex(&eventsv1.Event{}, "regarding.uid", func(client.Object) []string { return nil }).
		WithIndex(&v1alpha1.Signer{}, "spec.signerName", func(client.Object) []string { return nil }).Build()
	e, err := CertificateSigningRequest(t.Context(), cached{objects}, Query{Name: "host", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range e.Checks {
		texts = append(texts, string(c.Result)+" "+c.Name+" "+c.Message)
	}
	var commands []string
	for _, s := range e.Next {
		for _, c := range s.Commands {
			commands = append(commands, strings.Join(c, " "))
		}
	}
	for _, want := range []string{
		"Open order Order host-1: the CA has it, in the state pending",
		"Open challenge Challenge host-1-2, HTTP-01 for a.example.com, is not valid yet: Waiting for HTTP-01 challenge propagation: wrong status code '404'",
		"certplane explain order -n shop host-1", "certplane explain challenge -n shop host-1-2",
	} {
		if all := strings.Join(append(texts, commands...), "\n"); !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}
