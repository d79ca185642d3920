package apiserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// What is left to do for a Revocation follows from the store: a server that has just started
// revokes the certificates of pending requests that another one has issued meanwhile, once.
func TestRevokePendingAfterRestart(t *testing.T) {
	records, kv := newRecords(t)
	at := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	put := func(record string, requested, issued, approved time.Time) {
		t.Helper()
		r := &inventoryv1alpha1.IssuedCertificate{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(issued)}, SignerName: "example.com/web",
			Request:     inventoryv1alpha1.RequestFacts{APIGroup: "certificates.k8s.io", Kind: "CertificateSigningRequest", Name: record, UID: record, Requester: "thief"},
			Certificate: inventoryv1alpha1.CertificateFacts{SerialNumber: record, AuthorityKeyID: "01", Fingerprint: strings.Repeat(record, 32), NotAfter: metav1.NewTime(at.Add(time.Hour))},
			Approval:    &inventoryv1alpha1.ApprovalFacts{Time: new(metav1.NewTime(approved))},
		}
		inventory.Complete(r)
		op, err := records.Write(r)
		if err == nil {
			_, err = kv.Do(t.Context(), op)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("1a", at.Add(-time.Hour), at.Add(time.Second), at.Add(-time.Minute))
	put("2b", at.Add(-time.Hour), at.Add(time.Second), at.Add(time.Second)) // approved later: its object knows when it was requested
	put("3c", at.Add(time.Second), at.Add(time.Second), at.Add(time.Second))
	put("4d", at.Add(-time.Hour), at.Add(-time.Hour), at.Add(-time.Hour)) // not selected when it was revoked
	op, err := records.WriteEntries(revocation.Act{UID: "act", Name: "leak", User: "carol", Pending: `{"selection":{"requesters":["thief"]},"signers":["certificates.k8s.io example.com/web"]}`},
		[]revocation.Entry{{Authority: []byte{1}, Serial: []byte{1}, Time: at, NotAfter: at.Add(time.Hour), Reason: pki.ReasonSuperseded}})
	if err == nil {
		_, err = kv.Do(t.Context(), op)
	}
	if err != nil {
		t.Fatal(err)
	}
	requests := fake.NewClientBuilder().WithObjects(
		&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "2b", UID: "2b", CreationTimestamp: metav1.NewTime(at.Add(-time.Hour))}},
		&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "3c", UID: "another", CreationTimestamp: metav1.NewTime(at.Add(-time.Hour))}},
	).Build()
	ctx, cancel := context.WithCancel(t.Context())
	s, ended := &Server{recording: &recording{records: records, clock: clock.RealClock{}}}, make(chan error, 3)
	go func() { records.Run(ctx); ended <- nil }()
	for range 2 { // the former leader may not have ended
		go func() { ended <- s.RevokePending(ctx, requests) }()
	}
	for deadline := time.After(10 * time.Second); records.Revoked().Len() < 3; {
		_, changed := records.Revoked().Changed()
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond): // it has changed just before
		case <-deadline:
			t.Fatalf("%d certificates are revoked", records.Revoked().Len())
		}
	}
	cancel()
	if err := errors.Join(<-ended, <-ended, <-ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for record, want := range map[string]bool{"1a": true, "2b": true, "3c": false, "4d": false} {
		facts := records.RevocationOf(strings.Repeat(record, 16))
		if got := facts != nil; got != want || got && (facts.Name != "leak" || facts.Reason != "Superseded" || facts.By != "carol") {
			t.Errorf("the record %s says %+v", record, facts)
		}
		if stored, err := kv.Get(t.Context(), "/registry/inventory.certplane.dev/revoked/act-pending-"+strings.Repeat(record, 16)); err != nil || want && stored.Kvs[0].Version != 1 {
			t.Errorf("the record %s is revoked by %v, %v", record, stored, err)
		}
	}
}
