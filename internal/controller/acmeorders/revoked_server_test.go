package acmeorders_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// An order shows every revocation of its certificate, and so its client is
// told to renew. What the ACME server revokes for its client, it notes itself.
func TestRevokedByOthers(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	issue := func(host string) *v1alpha1.AcmeOrder {
		o := w.Order(w.Preauthorized(host))
		w.Finalize(o)
		if o = w.Ended(o); o.Status.Certificate == nil {
			t.Fatalf("the order is %+v", o.Status)
		}
		return o
	}
	byUser, byClient, valid := issue("a"), issue("b"), issue("c")
	server, err := client.New(w.Server.As(t, "system:serviceaccount:kube-system:acme-server", "system:masters"), client.Options{Scheme: w.Objects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	revoke := func(as client.Client, reason v1alpha1.RevocationReason, o *v1alpha1.AcmeOrder) {
		t.Helper()
		err := as.Create(t.Context(), &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{GenerateName: "orders-"}, Spec: v1alpha1.RevocationSpec{
			Reason: reason, Certificates: []v1alpha1.RevokedCertificate{{Fingerprint: o.Status.Certificate.Digest}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	revoke(server, "Superseded", byClient)
	revoke(w.Objects, "PrivilegeWithdrawn", byUser)
	until := func(reason int32) *v1alpha1.AcmeOrder {
		return w.Until(byUser, "says that its certificate is revoked", func(o *v1alpha1.AcmeOrder) bool {
			r := o.Status.Certificate.Revoked
			return r != nil && r.Reason == reason
		})
	}
	o := until(9)
	first := *o.Status.Certificate.Revoked
	if first.By != "certplane:admin" || first.Time.IsZero() {
		t.Errorf("the order says %+v", first)
	}
	if window := acmeorder.RenewalWindow(o.Status.Certificate, w.Endpoint, acmeorder.Causes{}, first.Time.Time); !window.End.Before(first.Time.Time) {
		t.Errorf("it is to be renewed until %v", window.End)
	}
	event(w, byUser, "Revoked")
	revoke(w.Objects, "KeyCompromise", byUser)
	if raised := until(1).Status.Certificate.Revoked; raised.By != first.By || !raised.Time.Equal(&first.Time) {
		t.Errorf("the order says %+v, before %+v", raised, first)
	}
	for _, o := range []*v1alpha1.AcmeOrder{byClient, valid} {
		if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if r := o.Status.Certificate.Revoked; r != nil {
			t.Errorf("an order says %+v", r)
		}
	}
}
