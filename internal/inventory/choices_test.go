package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// varied returns a record of an issued certificate that differs from others in what
// conditions are about.
func varied(n int) *inventoryv1alpha1.IssuedCertificate {
	r := record(n, 1)
	r.Certificate.KeyType, r.Certificate.SignatureAlgorithm = "ECDSA P-256", "ECDSA-SHA256"
	r.CreationTimestamp = metav1.NewTime(start.AddDate(0, 0, -40))
	r.Certificate.NotBefore = metav1.NewTime(r.Certificate.NotAfter.AddDate(0, 0, -30))
	switch n {
	case 1:
		r.Certificate.KeyType, r.Certificate.SignatureAlgorithm = "RSA 2048", "SHA1-RSA"
	case 2:
		r.Certificate.DNSNames = []string{"A.b.Corp.example", "*.wild.example"}
	case 3:
		r.Certificate.NotBefore = metav1.NewTime(r.Certificate.NotAfter.AddDate(0, 0, -91))
	case 4:
		r.CreationTimestamp = metav1.NewTime(start.AddDate(0, 0, -3))
	case 5:
		r.Approval = &inventoryv1alpha1.ApprovalFacts{Approvers: []string{"ann", "bob"}}
	case 7:
		r.Certificate.KeyFingerprint = strings.Repeat("7f", 32)
	case 6:
		r.Certificate.NotBefore = metav1.NewTime(r.Certificate.NotAfter.AddDate(0, 0, -90))
	}
	return r
}

// Each condition finds its records outside of packs, in packs, and in packs of a version
// that had no terms of it.
func TestConditions(t *testing.T) {
	w := newWorld(t)
	for n := range packRecords - 1 {
		w.write(varied(n))
	}
	day := func(days int) string { return fmt.Sprint(start.AddDate(0, 0, days).Unix()) }
	check := func(when string) {
		t.Helper()
		for _, tc := range []struct {
			field, value string
			want         []string
		}{
			{inventoryv1alpha1.KeyTypeField, "RSA 2048", []string{"request-1"}},
			{inventoryv1alpha1.KeyTypeField, "RSA", []string{"request-1"}},
			{inventoryv1alpha1.KeyTypeField, "RSA 4096", nil},
			{inventoryv1alpha1.WeakerThanField, "RSA 3072", []string{"request-1"}},
			{inventoryv1alpha1.WeakerThanField, "RSA 2048", nil},
			{inventoryv1alpha1.SignatureAlgorithmField, "sha1", []string{"request-1"}},
			{inventoryv1alpha1.SignatureAlgorithmField, "sha1-rsa", []string{"request-1"}},
			{inventoryv1alpha1.UnderField, "corp.example", []string{"request-2"}},
			{inventoryv1alpha1.UnderField, "a.b.corp.example", []string{"request-2"}},
			{inventoryv1alpha1.UnderField, "orp.example", nil},
			{inventoryv1alpha1.UnderField, "wild.example", []string{"request-2"}},
			{inventoryv1alpha1.NameField, "*.wild.example", []string{"request-2"}},
			{inventoryv1alpha1.LongerThanField, fmt.Sprint(90 * secondsPerDay), []string{"request-3"}},
			{inventoryv1alpha1.LongerThanField, fmt.Sprint(90*secondsPerDay - 1), []string{"request-3", "request-6"}},
			{inventoryv1alpha1.LongerThanField, fmt.Sprint(91 * secondsPerDay), nil},
			{inventoryv1alpha1.IssuedSinceField, day(-3), []string{"request-4"}},
			{inventoryv1alpha1.IssuedSinceField, day(-2), nil},
			{inventoryv1alpha1.IssuedBeforeField, day(-40), nil},
			{inventoryv1alpha1.DecisionUserField, "bob", []string{"request-5"}},
			{inventoryv1alpha1.DecisionUserField, "bo", nil},
			{inventoryv1alpha1.KeyFingerprintField, strings.Repeat("7f", 32), []string{"request-7"}},
			{inventoryv1alpha1.KeyFingerprintField, strings.Repeat("7e", 32), nil},
			{inventoryv1alpha1.KeyFingerprintField, "", nil}, // of records that lack it
		} {
			got := find(t, w.Inventory, byField(tc.field, tc.value))
			if slices.Sort(got); !slices.Equal(got, tc.want) {
				t.Errorf("%s, %s=%s: found %q, want %q", when, tc.field, tc.value, got, tc.want)
			}
		}
		if got := find(t, w.Inventory, byField(inventoryv1alpha1.IssuedBeforeField, day(-30))); len(got) < packRecords-2 {
			t.Errorf("%s: %d were issued 30 days ago", when, len(got))
		}
		several := Query{Fields: fields.Set{inventoryv1alpha1.UnderField: "example.com", inventoryv1alpha1.KeyTypeField: "RSA"}.AsSelector()}
		if got := find(t, w.Inventory, several); !slices.Equal(got, []string{"request-1"}) {
			t.Errorf("%s: conditions together find %q", when, got)
		}
	}
	check("outside of packs")
	w.write(varied(packRecords - 1))
	until(t, w.Inventory, "all are packed", func() bool { packed, _ := w.packed(w.Inventory); return packed == packRecords })
	check("in a pack")

	former := map[term]struct{}{}
	for n := range packRecords {
		r := varied(n)
		r.Certificate.KeyFingerprint = ""
		addTerms(former, r)
	}
	w.repack(former, bill{Bytes: 1, Terms: 1})
	check("in a pack of the former version")

	oldest := map[term]struct{}{}
	for n := range packRecords { // those of names stand for all of before
		for _, name := range varied(n).Certificate.DNSNames {
			oldest[newTerm(inventoryv1alpha1.NameField, lowerCase(name))] = struct{}{}
		}
	}
	w.repack(oldest, bill{Bytes: 1})
	check("in an old pack")
}

// repack replaces the filter and the bill of the first pack.
func (w *world) repack(terms map[term]struct{}, b bill) {
	w.Helper()
	key := fmt.Sprintf("%s%s/%08d", w.packs, dayText(dayOf(start.AddDate(0, 0, 1))), 0)
	stored, err := w.store.Get(w.Context(), key)
	if err != nil || stored == nil {
		w.Fatal(err, stored)
	}
	p, err := decodePack(stored.Value)
	if err != nil {
		w.Fatal(err)
	}
	p.filter, p.bill = newFilter(terms), b
	value, err := p.encode(packVersion)
	if err != nil {
		w.Fatal(err)
	}
	answer, err := w.Store.Txn(w.Context()).Then(clientv3.OpPut(key, string(value))).Commit()
	if err != nil {
		w.Fatal(err)
	}
	w.Wrote(answer.Header.Revision)
}

func lowerCase(name string) string {
	data := []byte(name)
	for i, c := range data {
		if c >= 'A' && c <= 'Z' {
			data[i] = c + 'a' - 'A'
		}
	}
	return string(data)
}

// Packs that cannot have what is looked for are not read.
func TestConditionsSkipPacks(t *testing.T) {
	w := newWorld(t)
	for n := range packRecords {
		r := varied(0)
		r.Certificate.Fingerprint, r.Request.Name = record(n, 1).Certificate.Fingerprint, fmt.Sprint("request-", n)
		Complete(r)
		w.write(r)
	}
	until(t, w.Inventory, "all are packed", func() bool { packed, _ := w.packed(w.Inventory); return packed == packRecords })
	for field, value := range map[string]string{
		inventoryv1alpha1.KeyTypeField: "RSA", inventoryv1alpha1.WeakerThanField: "RSA 3072", inventoryv1alpha1.UnderField: "corp.example",
		inventoryv1alpha1.LongerThanField: fmt.Sprint(30 * secondsPerDay), inventoryv1alpha1.IssuedSinceField: fmt.Sprint(start.Unix()),
		inventoryv1alpha1.SignatureAlgorithmField: "sha1", inventoryv1alpha1.DecisionUserField: "bob", inventoryv1alpha1.KeyFingerprintField: strings.Repeat("7f", 32),
	} {
		q := byField(field, value)
		s := &scan{Query: &q, terms: q.terms(), choices: q.choices(start)}
		w.Inventory.mu.RLock()
		for _, d := range w.days {
			for _, p := range d.packs {
				former := *p
				former.terms = 1
				if s.mayBeIn(p) || s.mayBeIn(&former) != (field == inventoryv1alpha1.KeyFingerprintField) {
					t.Errorf("a pack may have %s=%s", field, value)
				}
			}
		}
		w.Inventory.mu.RUnlock()
	}
}

// A revocation is part of the record, wherever that is, and goes with it.
func TestRevocations(t *testing.T) {
	w := newWorld(t)
	for n := range packRecords + 1 {
		w.write(record(n, 1))
	}
	until(t, w.Inventory, "a pack is full", func() bool { packed, fresh := w.packed(w.Inventory); return packed == packRecords && fresh == 1 })
	for n := range packRecords + 1 {
		r := record(n, 1)
		facts := inventoryv1alpha1.RevocationFacts{Time: metav1.NewTime(start), Reason: "superseded", By: "account"}
		op, err := w.Revoke(r.Certificate.Fingerprint, r.Certificate.NotAfter.Time, facts, "namespace/a")
		if err != nil {
			t.Fatal(err)
		}
		answer, err := w.Store.Txn(t.Context()).Then(op).Commit()
		if err != nil {
			t.Fatal(err)
		}
		w.Wrote(answer.Header.Revision)
		if paid := Payers(op.ValueBytes()); paid["namespace/a"] != int64(len(op.ValueBytes())) {
			t.Errorf("paid is %v", paid)
		}
	}
	for _, i := range []*Inventory{w.Inventory, w.open()} { // a start reads them too
		for _, n := range []int{0, packRecords} {
			q := byField(inventoryv1alpha1.SerialField, record(n, 1).Certificate.SerialNumber)
			q.Limit = 1
			page, err := i.Find(t.Context(), &q)
			if got := find(t, i, Query{Fields: fields.Set{inventoryv1alpha1.SerialField: record(n, 1).Certificate.SerialNumber, inventoryv1alpha1.RevokedField: "true"}.AsSelector()}); len(got) != 1 {
				t.Errorf("revoked are %q", got)
			}
			if err != nil || len(page.Items) != 1 || page.Items[0].Revocation == nil || page.Items[0].Revocation.Reason != "superseded" {
				t.Errorf("found %+v, %v", page, err)
			}
		}
	}
	w.mu.Lock()
	w.now = start.AddDate(0, 0, 4)
	w.mu.Unlock()
	if err := w.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := w.Store.Get(t.Context(), w.revoked, clientv3.WithPrefix())
	if err != nil || len(left.Kvs) > 0 {
		t.Errorf("%d revocations are left, %v", len(left.Kvs), err)
	}
}
