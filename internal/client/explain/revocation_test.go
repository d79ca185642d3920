package explain

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
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

// What an ACME client has revoked at an endpoint that only notes it is still accepted; what a
// Revocation names is refused, also if the Revocation cannot be read any more.
func TestRecord(t *testing.T) {
	kinds, err := kindsOnce()
	if err != nil {
		t.Fatal(err)
	}
	ends := metav1.NewTime(now.Add(time.Hour))
	for _, tc := range []struct {
		reason, verdict string
		ends            metav1.Time
		revocation      *inventoryv1alpha1.RevocationFacts
		checks          []Check
		next            string
	}{
		{"valid", "is valid until 2026-03-01T13:00:00Z", ends, nil, []Check{}, "certplane revoke --fingerprint f1 --reason ..."},
		{"ended", "ended on 2026-03-01T12:00:00Z", metav1.NewTime(now), nil, []Check{}, ""},
		{
			"noted", "is accepted until 2026-03-01T13:00:00Z, although a client of the ACME server has revoked it: 2026-03-01T12:00:00Z: Superseded, by account-1", ends,
			&inventoryv1alpha1.RevocationFacts{Time: metav1.NewTime(now), Reason: "Superseded", By: "account-1"},
			[]Check{{"refused", No, "its endpoint only notes revocations (spec.revocation: Record)"}, {"Listed", No, "no revocation list contains it"}}, "certplane revoke --fingerprint f1 --reason ...",
		},
		{
			"revoked", "is revoked since 2026-03-01T12:00:00Z: Superseded, by alice (Revocation gone)", ends,
			&inventoryv1alpha1.RevocationFacts{Time: metav1.NewTime(now), Reason: "Superseded", By: "alice", Name: "gone"},
			[]Check{{"refused", Yes, "this server refuses the certificate since 2026-03-01T12:00:00Z"}, {"Listed", Unknown, "the Revocation has been deleted"}}, "certplane explain revocation gone",
		},
	} {
		record := &inventoryv1alpha1.IssuedCertificate{ObjectMeta: metav1.ObjectMeta{Name: "r1"}, Revocation: tc.revocation}
		record.Certificate.Fingerprint, record.Certificate.DNSNames, record.Certificate.NotAfter = "f1", []string{"web"}, tc.ends
		e, err := Record(t.Context(), cached{fake.NewClientBuilder().WithScheme(kinds).WithObjects(record).Build()}, Query{Name: "r1", Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if e.Verdict != "The certificate of web "+tc.verdict || !slices.Equal(e.Checks, tc.checks) || !strings.Contains(typed(e.Next), tc.next) {
			t.Errorf("%s: %s\n%+v\n%s", tc.reason, e.Verdict, e.Checks, typed(e.Next))
		}
	}
}

// The record of a certificate says where the list of its CA is.
func TestRecordsList(t *testing.T) {
	kinds, err := kindsOnce()
	if err != nil {
		t.Fatal(err)
	}
	var lists []client.Object
	var cas []*x509.Certificate
	for _, name := range []string{"a", "b"} {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		root, err := pki.NewRoot(pki.UnrecordedSigning, "CA", key, time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		cas = append(cas, root.Certificate())
		lists = append(lists, &inventoryv1alpha1.RevocationList{
			ObjectMeta: metav1.ObjectMeta{Name: name}, CACertificates: string(pki.EncodeCertificates(root.Certificate())), URL: "http://crl.example.com/" + name + ".crl",
		})
	}
	for id, want := range map[string]string{hex.EncodeToString(cas[1].SubjectKeyId): "http://crl.example.com/b.crl", "ff": "", "": ""} {
		record := &inventoryv1alpha1.IssuedCertificate{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
		record.Certificate.AuthorityKeyID, record.Certificate.NotAfter = id, metav1.NewTime(now)
		e, err := Record(t.Context(), cached{fake.NewClientBuilder().WithScheme(kinds).WithObjects(append(lists, record)...).Build()}, Query{Name: "r1", Now: now})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, field := range e.Content {
			if field.Name == "revocation list" {
				got = field.Value
			}
		}
		if got != want {
			t.Errorf("authority %q: list at %q, want %q", id, got, want)
		}
	}
}

// The lists that do not have the certificates yet are a next step.
func TestRevocationSteps(t *testing.T) {
	r := &v1alpha1.Revocation{}
	r.Spec.Certificates = make([]v1alpha1.RevokedCertificate, maxNamed+2)
	r.Spec.Reason = "Superseded"
	if got := named(r.Spec.Certificates); !strings.HasSuffix(got, " and 2 more") {
		t.Errorf("%q", got)
	}
	for status, want := range map[metav1.ConditionStatus]string{metav1.ConditionTrue: "", metav1.ConditionFalse: "no list of the CA", metav1.ConditionUnknown: "no list of the CA"} {
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RevocationListed, Status: status, Message: "no list of the CA"}}
		if got := typed(Query{}.afterRevocation(r)); strings.Contains(got, "until a revocation list") != (want != "") || !strings.Contains(got, want) || strings.Contains(got, "new key") {
			t.Errorf("%s: %s", status, got)
		}
	}
	for status, want := range map[metav1.ConditionStatus]bool{metav1.ConditionTrue: false, metav1.ConditionFalse: true} {
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RevocationPassedOn, Status: status, Message: "Vault is sealed"}}
		if got := typed(Query{}.afterRevocation(r)); strings.Contains(got, "Why it has not revoked them: Vault is sealed") != want {
			t.Errorf("passed on %s: %s", status, got)
		}
	}
}

// Both explanations show what the CA of an issuer has been told.
func TestPassedOn(t *testing.T) {
	kinds, err := kindsOnce()
	if err != nil {
		t.Fatal(err)
	}
	r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RevocationPassedOn, Status: metav1.ConditionFalse, Message: "Vault is sealed"}}
	record := &inventoryv1alpha1.IssuedCertificate{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Revocation: &inventoryv1alpha1.RevocationFacts{Name: "r1"}}
	api := withoutEvents{cached{fake.NewClientBuilder().WithScheme(kinds).WithObjects(r, record).Build()}}
	want := Check{"PassedOn", No, "Vault is sealed"}
	for name, explain := range map[string]func(context.Context, Reader, Query) (ObjectExplanation, error){"r1": RevocationObject, "c1": Record} {
		e, err := explain(t.Context(), api, Query{Name: name, Now: now})
		if err != nil || !slices.Contains(e.Checks, want) {
			t.Errorf("%s: %+v, %v", name, e.Checks, err)
		}
	}
}
