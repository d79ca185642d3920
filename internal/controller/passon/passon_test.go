package passon

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
)

// seen is a cache that shows what a client reads.
type seen struct {
	cache.Cache
	from client.Client
}

func (s seen) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return s.from.Get(ctx, key, object, options...)
}

// cluster is an API without an inventory, and the CA of its issuers.
type cluster struct {
	*reconciler
	api    client.Client
	clock  *testingclock.FakeClock
	events *events.FakeRecorder
	// fails is the answer of the CA to a serial number.
	fails map[string]error
	// told are the serial numbers of which the CA was told.
	told []string
}

func (c *cluster) Find(name certmanager.IssuerType) (issuing.Type, bool) {
	return issuing.Type{Name: name, InProcess: name == certmanager.TypeCA}, true
}

func (c *cluster) Revoke(_ context.Context, of cmv1.GenericIssuer, cert issuing.Revoked) (bool, error) {
	if of.GetSpec().CA != nil {
		return false, nil
	}
	c.told = append(c.told, cert.Serial.String())
	return true, c.fails[cert.Serial.String()]
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(kinds), certmanager.AddToScheme(kinds), certificatesv1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		clock: testingclock.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)), events: events.NewFakeRecorder(100), fails: map[string]error{},
	}
	c.api = fake.NewClientBuilder().WithScheme(kinds).WithStatusSubresource(&v1alpha1.Revocation{}).WithObjects(
		&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "vault"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{Vault: &cmv1.VaultIssuer{}}}},
		&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{}}}},
	).WithObjects(objects...).Build()
	c.restart()
	return c
}

// restart begins again, as another process.
func (c *cluster) restart() {
	c.reconciler = &reconciler{
		Config: Config{Client: c.api, Revocations: seen{from: c.api}, Issuers: c, Clock: c.clock, Events: c.events}, cache: c.api,
	}
}

// certificate returns a certificate, in PEM, with a serial number.
func certificate(t *testing.T, serial int64) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(cert)
}

// answered is an answered request to an issuer.
func answered(ref cmmeta.IssuerReference, name string, cert []byte) *cmv1.CertificateRequest {
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: cmv1.CertificateRequestSpec{IssuerRef: ref},
		Status: cmv1.CertificateRequestStatus{Certificate: cert},
	}
}

// revoke creates a Revocation of certificates.
func (c *cluster) revoke(t *testing.T, certs ...[]byte) {
	t.Helper()
	r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "1", CreationTimestamp: metav1.NewTime(c.clock.Now())}, Spec: v1alpha1.RevocationSpec{Reason: "Superseded"}}
	for _, cert := range certs {
		r.Spec.Certificates = append(r.Spec.Certificates, v1alpha1.RevokedCertificate{PEM: string(cert)})
	}
	if err := c.api.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// step reconciles once, and returns the condition and when to do so again.
func (c *cluster) step(t *testing.T) (*metav1.Condition, time.Duration) {
	t.Helper()
	name := client.ObjectKey{Name: "r"}
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
	if err != nil {
		t.Fatal(err)
	}
	r := &v1alpha1.Revocation{}
	if err := c.api.Get(t.Context(), name, r); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RevocationPassedOn), result.RequeueAfter
}

// says compares a condition with "STATUS REASON" and a part of its message.
func says(t *testing.T, c *metav1.Condition, want, part string) {
	t.Helper()
	if c == nil || string(c.Status)+" "+c.Reason != want || !strings.Contains(c.Message, part) {
		t.Errorf("the condition is %+v, want %s with %q", c, want, part)
	}
}

var byVault = cmmeta.IssuerReference{Name: "vault"}

// In a cluster, requests tell who has issued a certificate. A CA that is away is told again,
// with growing pauses, for a day.
func TestOutage(t *testing.T) {
	good, bad, own := certificate(t, 1), certificate(t, 2), certificate(t, 3)
	c := newCluster(t, answered(byVault, "good", good), answered(byVault, "bad", bad), answered(cmmeta.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}, "own", own))
	c.fails["2"] = errors.New("Vault is\n sealed")
	c.revoke(t, good, bad, own)
	const first = 10 * time.Second
	condition, wait := c.step(t)
	says(t, condition, "False NotPassedOn", "1 certificates are not revoked by the CAs of their issuers, which are told again until 2026-12-01T12:00:00Z: issuers.cert-manager.io/shop.vault: Vault is sealed")
	if wait != first {
		t.Errorf("the next attempt is after %v", wait)
	}
	c.clock.Step(first / 2)
	if _, wait := c.step(t); wait != first/2 || len(c.told) != 2 { // its own write wakes it
		t.Errorf("the next attempt is after %v; told %q", wait, c.told)
	}
	c.clock.Step(first / 2)
	if _, wait := c.step(t); wait != 2*first {
		t.Errorf("the attempt after the next one is after %v", wait)
	}
	if got := strings.Join(c.told, " "); got != "1 2 2" {
		t.Errorf("the CA was told of %s", got)
	}
	c.restart() // forgets what is done
	delete(c.fails, "2")
	condition, wait = c.step(t)
	says(t, condition, "True PassedOn", "revoked 2 certificates")
	if wait != 0 {
		t.Errorf("one more attempt after %v", wait)
	}
	c.step(t)
	if got := strings.Join(c.told, " "); got != "1 2 2 1 2" {
		t.Errorf("the CA was told of %s", got)
	}
	if got := []string{<-c.events.Events, <-c.events.Events}; len(c.events.Events) != 0 || !strings.HasPrefix(got[0], "Warning NotPassedOn") || !strings.HasPrefix(got[1], "Normal PassedOn") {
		t.Errorf("Events: %q", got)
	}
}

func TestGivesUp(t *testing.T) {
	cert := certificate(t, 1)
	c := newCluster(t, answered(byVault, "web", cert))
	c.fails["1"] = errors.New("down")
	c.revoke(t, cert)
	begin := c.clock.Now()
	for {
		_, wait := c.step(t)
		if wait == 0 {
			break
		}
		c.clock.Step(wait)
	}
	if after := c.clock.Since(begin); after < 24*time.Hour || after > 25*time.Hour || len(c.told) < 40 || len(c.told) > 70 {
		t.Errorf("%d attempts in %v", len(c.told), after)
	}
	if _, isKept := c.acts.Load("r"); len(c.events.Events) != 1 || isKept {
		t.Errorf("%d Events, the act is kept: %v", len(c.events.Events), isKept)
	}
}

func TestWhoCannotBeTold(t *testing.T) {
	external, away, old := certificate(t, 1), certificate(t, 2), certificate(t, 3)
	c := newCluster(t,
		answered(cmmeta.IssuerReference{Name: "pca", Kind: "PCA", Group: "example.com"}, "external", external),
		answered(cmmeta.IssuerReference{Name: "deleted"}, "away", away),
		&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/web"},
			Status: certificatesv1.CertificateSigningRequestStatus{Certificate: old},
		})
	c.revoke(t, external, old)
	condition, wait := c.step(t)
	says(t, condition, "False NotSupported", "PCA.example.com/pca")
	if wait != 0 {
		t.Errorf("one more attempt after %v", wait)
	}
	if err := c.api.Delete(t.Context(), &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "r"}}); err != nil {
		t.Fatal(err)
	}
	c.restart()
	c.revoke(t, away)
	condition, _ = c.step(t)
	says(t, condition, "False NotPassedOn", "shop.deleted: the issuer does not exist")
}

// A thousand certificates are passed on in turns.
func TestPace(t *testing.T) {
	var objects []client.Object
	var certs [][]byte
	for n := range 25 {
		cert := certificate(t, int64(n+1))
		certs, objects = append(certs, cert), append(objects, answered(byVault, fmt.Sprint(n), cert))
	}
	c := newCluster(t, objects...)
	c.revoke(t, certs...)
	for turn, want := range []int{10, 20, 25} {
		condition, wait := c.step(t)
		if last := turn == 2; len(c.told) != want || (wait == 0) != last || (condition != nil) != last {
			t.Errorf("turn %d: told of %d, next after %v, condition %+v", turn, len(c.told), wait, condition)
		}
	}
}
