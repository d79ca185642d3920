package revoked

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// cluster is an API, and a CA whose lists are stored there.
type cluster struct {
	api *fake.Clientset
	ca  *pki.Authority
	key crypto.Signer
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewAuthority([]*x509.Certificate{cert}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{api: fake.NewClientset(), ca: ca, key: key}
}

func (c *cluster) id() string { return revocation.ListID(c.ca.Certificate()) }

// issue returns a certificate of the CA, in PEM.
func (c *cluster) issue(t *testing.T, serial int64) v1alpha1.RevokedCertificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: noon, NotAfter: noon.Add(100 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, c.ca.Certificate(), key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.RevokedCertificate{PEM: string(pki.EncodeCertificates(cert))}
}

// process is what a process of the cluster knows.
type process struct {
	*Lists
	revocations folding
	reported    *events.FakeRecorder
}

// start starts a process that reads some Revocations, and then the stored lists.
func (c *cluster) start(t *testing.T, revocations ...any) *process {
	t.Helper()
	follower := New(dynamic.NewForConfigOrDie(&rest.Config{}))
	p := &process{revocations: follower.store(), reported: events.NewFakeRecorder(10)}
	p.Lists = NewLists(follower, c.api.CoreV1().ConfigMaps("certplane-system"), p.reported)
	if err := p.revocations.Replace(revocations, ""); err != nil {
		t.Fatal(err)
	}
	p.readAll(t, c)
	return p
}

func (p *process) readAll(t *testing.T, c *cluster) {
	t.Helper()
	var all []any
	if object := c.stored(t); object != nil {
		all = append(all, object)
	}
	if err := p.store().Replace(all, ""); err != nil || p.AwaitRead(t.Context()) != nil {
		t.Fatal(err)
	}
}

func (c *cluster) stored(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	all, err := c.api.CoreV1().ConfigMaps("certplane-system").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) > 1 {
		t.Fatalf("%v, %d ConfigMaps", err, len(all.Items))
	}
	if len(all.Items) == 0 {
		return nil
	}
	return &all.Items[0]
}

// sign signs the next list as the publisher does, on day after noon.
func (p *process) sign(t *testing.T, c *cluster, day int) error {
	t.Helper()
	at := noon.Add(time.Duration(day) * 24 * time.Hour)
	list := &revocation.StoredList{
		Number: at.UnixMilli(), ThisUpdate: at, NextUpdate: at.Add(7 * 24 * time.Hour), Covers: p.RevokedTo(), EndedBefore: at.Add(-48 * time.Hour),
		Chain: [][]byte{c.ca.Certificate().Raw}, Signers: []string{"example.com/web"},
	}
	var last, former int64
	if known := p.Get(c.id()); known != nil {
		former = known.Revision
		if known.Last != nil {
			last = known.Last.Number
		}
	}
	list.Number = max(list.Number, last+1)
	linted, err := list.Lint(c.ca.Lists(), p.Revoked(), last)
	if err != nil {
		t.Fatal(err)
	}
	der, err := linted.Sign(t.Context(), rand.Reader, func(context.Context, pki.SignedList) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Seal(der, false); err != nil {
		t.Fatal(err)
	}
	return p.Put(t.Context(), c.id(), list, der, former)
}

// listed returns the serial numbers on the list that a process has.
func (p *process) listed(t *testing.T, c *cluster) (serials []int64) {
	t.Helper()
	list, err := x509.ParseRevocationList(p.Get(c.id()).DER)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.RevokedCertificateEntries {
		serials = append(serials, e.SerialNumber.Int64())
	}
	slices.Sort(serials)
	return serials
}

// Another process takes the stored list over, signs it again only if it lacks a certificate,
// and keeps the certificates of deleted Revocations on it.
func TestTakeOver(t *testing.T) {
	c := newCluster(t)
	a, b := object(t, "a", "KeyCompromise", c.issue(t, 7)), object(t, "b", "Superseded", c.issue(t, 8))
	first := c.start(t, a, b)
	if err := first.sign(t, c, 0); err != nil {
		t.Fatal(err)
	}
	same := c.start(t, a, b)
	if list := same.Get(c.id()); list.Last.Covers != same.RevokedTo() || list.Last.Number != first.Get(c.id()).Last.Number || list.DER == nil {
		t.Errorf("it covers %d of %d, and has number %d", list.Last.Covers, same.RevokedTo(), list.Last.Number)
	}
	for reason, known := range map[string][]any{
		"another certificate": {a, b, object(t, "c", "Superseded", c.issue(t, 9))},
		"another reason":      {a, object(t, "c", "KeyCompromise", v1alpha1.RevokedCertificate{SerialNumber: "8", AuthorityKeyID: keyID(c)})},
	} {
		if list := c.start(t, known...).Get(c.id()); list.Last.Covers != 0 {
			t.Errorf("%s: it covers %d", reason, list.Last.Covers)
		}
	}

	without := c.start(t, b)
	since, waits := without.Revoked().Uncovered(revocation.AuthoritiesOf(c.ca.Certificate()), without.Get(c.id()).Last.Covers)
	if waits {
		t.Errorf("it waits for a list since %v", since)
	}
	if err := without.sign(t, c, 1); err != nil {
		t.Fatal(err)
	}
	if got := without.listed(t, c); !slices.Equal(got, []int64{7, 8}) {
		t.Errorf("without its Revocation, the list has %v", got)
	}
	former, _ := x509.ParseRevocationList(first.Get(c.id()).DER)
	latter, _ := x509.ParseRevocationList(without.Get(c.id()).DER)
	for n, e := range former.RevokedCertificateEntries {
		if other := latter.RevokedCertificateEntries[slices.IndexFunc(latter.RevokedCertificateEntries, func(o x509.RevocationListEntry) bool { return o.SerialNumber.Cmp(e.SerialNumber) == 0 })]; !other.RevocationTime.Equal(e.RevocationTime) || other.ReasonCode != e.ReasonCode {
			t.Errorf("entry %d was %+v and is %+v", n, e, other)
		}
	}
}

func keyID(c *cluster) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	for _, b := range c.ca.Certificate().SubjectKeyId {
		text.WriteByte(digits[b>>4])
		text.WriteByte(digits[b&15])
	}
	return text.String()
}

// Of two processes that believe to lead, the later one fails, and knows the other's list then.
// So does one whose ConfigMap is from a backup.
func TestConflict(t *testing.T) {
	c := newCluster(t)
	a := object(t, "a", "KeyCompromise", c.issue(t, 7))
	first, second := c.start(t, a), c.start(t)
	if err := first.sign(t, c, 0); err != nil {
		t.Fatal(err)
	}
	backup := c.stored(t)
	if err := second.sign(t, c, 0); !errors.Is(err, errConflict) {
		t.Fatal(err)
	}
	if err := second.sign(t, c, 0); err != nil {
		t.Fatal(err)
	}
	if got := second.listed(t, c); !slices.Equal(got, []int64{7}) || second.Get(c.id()).Last.Number <= first.Get(c.id()).Last.Number {
		t.Errorf("number %d lists %v", second.Get(c.id()).Last.Number, got)
	}
	if _, err := c.api.CoreV1().ConfigMaps("certplane-system").Update(t.Context(), backup, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := second.sign(t, c, 1); !errors.Is(err, errConflict) {
		t.Fatal(err)
	}
	if err := second.sign(t, c, 1); err != nil {
		t.Fatal(err)
	}
}

// What somebody else has written is not served, and is replaced; so is what was deleted.
func TestDamaged(t *testing.T) {
	for reason, damage := range map[string]func(*corev1.ConfigMap, string){
		"no JSON":               func(o *corev1.ConfigMap, id string) { o.Data[id+factsKey] = "{" },
		"no list":               func(o *corev1.ConfigMap, id string) { delete(o.BinaryData, id+listKey) },
		"a changed list":        func(o *corev1.ConfigMap, id string) { list := o.BinaryData[id+listKey]; list[len(list)-1] ^= 1 },
		"without CA":            func(o *corev1.ConfigMap, id string) { o.Data[id+factsKey] = `{"revision":9}` },
		"nothing of the CA":     func(o *corev1.ConfigMap, _ string) { o.Data, o.BinaryData = nil, nil },
		"revision out of range": func(o *corev1.ConfigMap, id string) { o.Data[id+factsKey] = `{"revision":"x"}` },
	} {
		c := newCluster(t)
		a := object(t, "a", "KeyCompromise", c.issue(t, 7))
		if err := c.start(t, a).sign(t, c, 0); err != nil {
			t.Fatal(err)
		}
		object := c.stored(t)
		damage(object, c.id())
		if _, err := c.api.CoreV1().ConfigMaps("certplane-system").Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := c.start(t, a)
		if list := p.Get(c.id()); list != nil && (list.DER != nil || list.Last != nil) {
			t.Errorf("%s: the list is %+v", reason, list)
		}
		if err := p.sign(t, c, 1); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if got := c.start(t, a).listed(t, c); !slices.Equal(got, []int64{7}) {
			t.Errorf("%s: then %v", reason, got)
		}
	}
	c := newCluster(t)
	p := c.start(t)
	if err := p.sign(t, c, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.api.CoreV1().ConfigMaps("certplane-system").Delete(t.Context(), rights.RevocationLists, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.readAll(t, c)
	if err := p.sign(t, c, 1); err != nil || c.stored(t) == nil {
		t.Errorf("after its deletion: %v", err)
	}
}

// A list that does not fit is reported, and the former one stays.
func TestTooLarge(t *testing.T) {
	c := newCluster(t)
	p := c.start(t, object(t, "a", "KeyCompromise", c.issue(t, 7)))
	if err := p.sign(t, c, 0); err != nil {
		t.Fatal(err)
	}
	before := c.stored(t)
	many := make([]revocation.Entry, 50_000)
	for n := range many {
		many[n] = revocation.Entry{Authority: c.ca.Certificate().SubjectKeyId, Serial: big.NewInt(int64(n) + 1000).Bytes(), NotAfter: noon.Add(99 * 24 * time.Hour), Time: noon}
	}
	p.follower.add(revocation.Act{UID: "many"}, many)
	if err := p.sign(t, c, 1); !errors.Is(err, errTooLarge) {
		t.Fatal(err)
	}
	if event := <-p.reported.Events; !strings.Contains(event, "TooLarge") || !strings.Contains(event, "50001 certificates") {
		t.Errorf("Event %q", event)
	}
	if after := c.stored(t); string(after.BinaryData[c.id()+listKey]) != string(before.BinaryData[c.id()+listKey]) || !slices.Equal(p.listed(t, c), []int64{7}) {
		t.Error("the former list is gone")
	}
}

func TestDelete(t *testing.T) {
	c := newCluster(t)
	p := c.start(t)
	if err := errors.Join(p.sign(t, c, 0), p.Delete(t.Context(), c.id())); err != nil {
		t.Fatal(err)
	}
	if object := c.stored(t); p.Get(c.id()) != nil || len(object.Data)+len(object.BinaryData) > 0 {
		t.Errorf("it is still there: %v", object)
	}
}
