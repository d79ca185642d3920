package acmeorders_test

import (
	"slices"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// shared is without the cleaner, which ends orders of accounts that have ended.
var shared = apitest.Shared{Options: []func(*server.Config){func(c *server.Config) { c.Controllers = append(c.Controllers, "-acme-cleaner") }}}

func TestMain(m *testing.M) { apitest.Main(m, &shared) }

// An order whose names the external key proves, of a ServiceAccount that needs no
// person, ends with a certificate, by one request of that ServiceAccount. The answer
// to its creation has the certificate.
func TestPreauthorizedOrder(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	o := w.Order(w.Preauthorized("a"), w.Preauthorized("b"))
	key := w.Finalize(o)
	o = w.Ended(o)
	if o.Status.State != v1alpha1.AcmeOrderValid {
		t.Fatalf("the order is %+v", o.Status)
	}
	chain, err := pki.ParseCertificates([]byte(o.Status.Certificate.Chain))
	if err != nil {
		t.Fatal(err)
	}
	if !pki.SameKey(chain[0].PublicKey, key.Public()) || len(chain[0].DNSNames) != 2 {
		t.Errorf("the certificate is for %v", chain[0].DNSNames)
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := w.Objects.Get(t.Context(), client.ObjectKey{Name: "acme-" + o.Name}, csr); err != nil {
		t.Fatal(err)
	}
	if csr.UID != o.Status.Request.UID || csr.Spec.Username != "system:serviceaccount:"+w.Namespace+":web" || *csr.Spec.ExpirationSeconds != 12*3600 {
		t.Errorf("the request is %+v, the order names %+v", csr.Spec, o.Status.Request)
	}
}

func subjectOf(o *v1alpha1.AcmeOrder) pki.Subject {
	var s pki.Subject
	for _, id := range o.Spec.Identifiers {
		s.DNSNames = append(s.DNSNames, id.Value)
	}
	return s
}

// makeCA makes an Issuer "ca" with a CA of its own in the namespace.
func makeCA(w *acmetest.World) {
	w.Helper()
	secret := w.Server.ClientCASecret(w, w.Namespace, "ca")
	w.Create(secret)
	w.Create(&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "ca"}, Spec: cmv1.IssuerSpec{
		IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "ca"}},
	}})
}

// Where requests are not answered in their creation, as in clusters, the order is
// followed step by step.
func TestAnsweredLater(t *testing.T) {
	w := acmetest.New(t, apitest.Start(t, func(c *server.Config) { c.API.IssueOnCreate = false }))
	w.AutoApprove()
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid || o.Status.Approval == nil || o.Status.Approval.By != "" {
		t.Errorf("the order is %+v", o.Status)
	}
}

// An order that waits for people says so, after a moment.
func TestWaits(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	w.Until(o, "says that it waits", func(o *v1alpha1.AcmeOrder) bool {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.AcmeOrderApproved)
		return c != nil && c.Status == metav1.ConditionUnknown && c.Reason == "WaitingForApproval"
	})
	event(w, o, "WaitingForApproval")
}

// event waits for an Event on an order.
func event(w *acmetest.World, o *v1alpha1.AcmeOrder, reason string) {
	w.Helper()
	apitest.Eventually(w, "the Event "+reason, func() bool {
		list := &corev1.EventList{}
		if err := w.Objects.List(w.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			w.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID == o.UID && e.Reason == reason })
	})
}

// A certificate that is not what was ordered is not handed out, and is recorded as
// revoked.
func TestSomethingElse(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	other := w.Order(w.Preauthorized("a"))
	w.Finalize(other)
	wrong := []byte(w.Ended(other).Status.Certificate.Chain)

	w.Change(w.Endpoint, func() { w.Endpoint.Spec.Profiles[0].Signer.Name = "example.com/elsewhere" })
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	csr := requestOf(w, o)
	apitest.Eventually(t, "the request is approved", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKeyFromObject(csr), csr) == nil && len(csr.Status.Conditions) > 0
	})
	csr.Status.Certificate = wrong
	w.UpdateStatus(csr)
	invalid(w, o, rfc8555.ProblemServerInternal, "does not match the order")
	event(w, o, "IssuedSomethingElse")
	if o = w.Ended(o); o.Status.Certificate == nil || o.Status.Certificate.Chain != "" || o.Status.Certificate.Revoked == nil {
		t.Errorf("the record is %+v", o.Status.Certificate)
	}
}
