package revoking

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// A certificate is revoked when it is issued only if its request existed, is selected, and is
// of a signer to which the creator of the Revocation had the right.
func TestPending(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	index := revocation.NewIndex()
	index.Add(revocation.Act{
		UID: "act", Name: "leak", User: "carol", Revision: 7,
		Pending: `{"selection":{"namespaces":["shop"],"labels":"app=web","issuedBefore":"2026-12-01T11:59:00Z"},"signers":["certificates.k8s.io example.com/web","certificates.k8s.io example.com/many"],"many":["certificates.k8s.io example.com/many"]}`,
	}, []revocation.Entry{{Authority: []byte{1}, Serial: []byte{1}, Time: at, NotAfter: at.Add(time.Hour), Reason: pki.ReasonSuperseded}})
	// The last test cases are about an act that has revoked as many as one may without revokemany.
	for n := range byte(fewAtOnce - 2) {
		index.Add(revocation.Act{UID: types.UID("act-pending-" + string('a'+n))}, []revocation.Entry{{Authority: []byte{2}, Serial: []byte{n + 1}, Time: at}})
	}
	for _, tc := range []struct {
		reason       string
		created, now time.Time
		change       func(*inventoryv1alpha1.IssuedCertificate)
		want         bool
		more         bool // there is one more entry from then on
	}{
		{reason: "pending", want: true},
		{reason: "issued a day later", now: at.Add(24 * time.Hour)},
		{reason: "requested later", created: at},
		{reason: "requested after issuedBefore", created: at.Add(-time.Minute)},
		{reason: "another namespace", change: func(r *inventoryv1alpha1.IssuedCertificate) { r.Request.Namespace = "bank" }},
		{reason: "another label", change: func(r *inventoryv1alpha1.IssuedCertificate) { r.Labels = nil }},
		{reason: "a signer without a right", change: func(r *inventoryv1alpha1.IssuedCertificate) { r.SignerName = "example.com/vpn" }},
		{reason: "an issuer with the name of the signer", change: func(r *inventoryv1alpha1.IssuedCertificate) { r.Request.Kind = "CertificateRequest" }},
		{reason: "a signer without a right, one's own request", want: true, change: func(r *inventoryv1alpha1.IssuedCertificate) {
			r.SignerName, r.Request.Requester = "example.com/vpn", "carol"
		}},
		{reason: "a CA", change: func(r *inventoryv1alpha1.IssuedCertificate) { r.Certificate.IsCA = true }},
		{reason: "the 26th, without revokemany", more: true},
		{reason: "the 26th, with revokemany", want: true, change: func(r *inventoryv1alpha1.IssuedCertificate) { r.SignerName = "example.com/many" }},
	} {
		if tc.more {
			index.Add(revocation.Act{UID: "act-pending-z"}, []revocation.Entry{{Authority: []byte{2}, Serial: []byte{99}, Time: at}})
		}
		record := &inventoryv1alpha1.IssuedCertificate{
			ObjectMeta: metav1.ObjectMeta{Name: "record", Labels: map[string]string{"app": "web"}}, SignerName: "example.com/web",
			Request:     inventoryv1alpha1.RequestFacts{Kind: "CertificateSigningRequest", Namespace: "shop", Requester: "bob"},
			Certificate: inventoryv1alpha1.CertificateFacts{SerialNumber: "2", AuthorityKeyID: "01"},
		}
		if tc.change != nil {
			tc.change(record)
		}
		if tc.created.IsZero() {
			tc.created = at.Add(-2 * time.Minute)
		}
		if tc.now.IsZero() {
			tc.now = at.Add(time.Minute)
		}
		act, entry, ok := Pending(index, record, tc.created, tc.now)
		if ok != tc.want || ok && (act.UID != "act-pending-record" || act.Name != "leak" || act.User != "carol" || entry.Reason != pki.ReasonSuperseded || !entry.Time.Equal(tc.now)) {
			t.Errorf("%s: %t, %+v, %+v", tc.reason, ok, act, entry)
		}
	}
}
