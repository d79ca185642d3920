package explain

import (
	"context"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// withoutEvents is an API that has no Events.
type withoutEvents struct{ cached }

func (r withoutEvents) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, ok := list.(*eventsv1.EventList); ok {
		return nil
	}
	return r.cached.List(ctx, list, o...)
}

// A request whose certificate is revoked says so, with when, why and by whom.
func TestRevokedCertificate(t *testing.T) {
	kinds, err := kindsOnce()
	if err != nil {
		t.Fatal(err)
	}
	f := newFacts(t)
	conditions(since("Approved", "KubectlApprove", "by hand"))(f)
	issue(t)(f)
	for _, tc := range []struct {
		reason, want string
		revocation   *inventoryv1alpha1.RevocationFacts
	}{
		{"revoked", "n1 was issued, and its certificate is revoked since 2026-03-01T12:00:00Z: keyCompromise, by account-1", &inventoryv1alpha1.RevocationFacts{Time: metav1.NewTime(now), Reason: "keyCompromise", By: "account-1"}},
		{"not revoked", "n1 is issued: its certificate is valid until ", nil},
	} {
		record := &inventoryv1alpha1.IssuedCertificate{ObjectMeta: metav1.ObjectMeta{Name: describeCertificate(f.csr.Status.Certificate).SHA256}, Revocation: tc.revocation}
		f.events, err = eventsOfRequest(t.Context(), withoutEvents{cached{fake.NewClientBuilder().WithScheme(kinds).WithObjects(record).Build()}}, f.csr, f.progress())
		if err != nil {
			t.Fatal(err)
		}
		e := f.complete().explain()
		if !strings.HasPrefix(e.Verdict, tc.want) || (e.Certificate.Revocation != nil) != (tc.revocation != nil) {
			t.Errorf("%s: %s, %+v", tc.reason, e.Verdict, e.Certificate)
		}
	}
}

// So does the order of an ACME client.
func TestRevokedOrder(t *testing.T) {
	kinds, err := kindsOnce()
	if err != nil {
		t.Fatal(err)
	}
	o := &v1alpha1.AcmeOrder{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "o1"}}
	o.Status.State = rfc8555.StateValid
	o.Status.Certificate = &v1alpha1.AcmeCertificate{Serial: "1f", NotAfter: metav1.NewTime(now), Revoked: &v1alpha1.AcmeRevoked{Time: metav1.NewTime(now), Reason: 4, By: "account-1"}}
	e, err := ACMEOrder(t.Context(), withoutEvents{cached{fake.NewClientBuilder().WithScheme(kinds).WithObjects(o).Build()}}, Query{Namespace: "shop", Name: "o1", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Content[len(e.Content)-1]; got != (ObjectField{"revoked", "2026-03-01T12:00:00Z: superseded, by account-1"}) || !strings.HasSuffix(e.Verdict, "and is revoked") {
		t.Errorf("%+v: %s", e.Content, e.Verdict)
	}
}
