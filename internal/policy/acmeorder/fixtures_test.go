package acmeorder_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func hour(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Hour} }

func moment(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }

// endpointObject is an endpoint with the defaults of the API.
func endpointObject(change ...func(*v1alpha1.AcmeEndpoint)) *v1alpha1.AcmeEndpoint {
	e := &v1alpha1.AcmeEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "corp"}, Spec: v1alpha1.AcmeEndpointSpec{
		Accounts: v1alpha1.AcmeAccounts{Admission: v1alpha1.AcmeAdmissionOpen, ServiceAccount: &v1alpha1.AcmeServiceAccount{Namespace: "acme-clients", Name: "corp"}},
		Identifiers: v1alpha1.AcmeIdentifiers{
			DNS: &v1alpha1.AcmeDNSNames{
				Allow: []string{"*.corp.example", "corp.example", "intranet"}, Deny: []string{"vault.corp.example", "*.secret.corp.example"},
				Wildcards: v1alpha1.AcmeWildcardsAllow,
			},
			IP:          &v1alpha1.AcmeAddresses{Allow: []string{"10.0.0.0/8", "fd00::/8"}, Deny: []string{"10.9.9.9"}},
			MaxPerOrder: 100,
		},
		Profiles: []v1alpha1.AcmeProfile{
			{
				Name: "server", Signer: &v1alpha1.AcmeSigner{Name: "corp.example/hosts"}, Usages: []string{"digital signature", "key encipherment", "server auth"},
				Lifetime: v1alpha1.AcmeLifetime{Default: hour(720), Maximum: hour(720)}, KeyTypes: []string{"ECDSAP256", "RSA2048", "ED25519"},
			},
			{
				Name: "mesh", Issuer: &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: "Issuer", Name: "mesh"}, Usages: []string{"digital signature", "server auth"},
				Lifetime: v1alpha1.AcmeLifetime{Default: hour(6), Maximum: hour(24)}, KeyTypes: []string{"ECDSAP256"},
			},
		},
		Approval:   v1alpha1.AcmeApproval{Mode: v1alpha1.AcmeApprovalByRight},
		Challenges: v1alpha1.AcmeChallenges{Types: []string{"http-01", "dns-01", "tls-alpn-01"}, Attempts: v1alpha1.AcmeAttempts{Count: 5, Interval: seconds(5), Timeout: seconds(10)}},
		Orders:     v1alpha1.AcmeOrders{PendingFor: hour(24), ProcessingFor: hour(168), AuthorizationValidFor: hour(24), ChainFor: hour(168)},
		Limits: v1alpha1.AcmeLimits{
			OrdersPerAccountPerHour: 300, PendingOrdersPerAccount: 50, WaitingOrdersPerAccount: 20, FailedValidationsPerHour: 20, MaxAccounts: 100000,
		},
		Renewal:    v1alpha1.AcmeRenewal{WindowAt: []int32{60, 80}, RetryAfter: hour(6)},
		Revocation: v1alpha1.AcmeRevocationRecord,
	}}
	for _, c := range change {
		c(e)
	}
	return e
}

func seconds(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Second}
}

func endpoint(t testing.TB, change ...func(*v1alpha1.AcmeEndpoint)) *acmeorder.Endpoint {
	t.Helper()
	e, errs := acmeorder.Compile(endpointObject(change...))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return e
}

func externalKey(t testing.TB, change ...func(*v1alpha1.AcmeExternalKey)) *acmeorder.ExternalKey {
	t.Helper()
	object := &v1alpha1.AcmeExternalKey{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fleet", UID: "key-uid"}, Spec: v1alpha1.AcmeExternalKeySpec{
		Endpoint: "corp", ServiceAccount: "web",
	}}
	for _, c := range change {
		c(object)
	}
	key, errs := acmeorder.CompileKey(object)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return key
}

// account is an account without an external key.
func account(change ...func(*v1alpha1.AcmeAccount)) *v1alpha1.AcmeAccount {
	a := &v1alpha1.AcmeAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "alice", UID: "account-uid", CreationTimestamp: metav1.Time{Time: now.Add(-time.Hour)}},
		Spec:       v1alpha1.AcmeAccountSpec{Endpoint: "corp", ServiceAccount: v1alpha1.AcmeServiceAccount{Namespace: "shop", Name: "web"}},
		Status:     v1alpha1.AcmeAccountStatus{State: v1alpha1.AcmeAccountValid, Key: "corp.current"},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

// bound is an account with the key of externalKey.
func bound(change ...func(*v1alpha1.AcmeAccount)) *v1alpha1.AcmeAccount {
	a := account()
	a.Spec.ExternalKey = &v1alpha1.AcmeExternalKeyReference{Namespace: "shop", Name: "fleet", UID: "key-uid"}
	for _, c := range change {
		c(a)
	}
	return a
}

func facts(a *v1alpha1.AcmeAccount, key *acmeorder.ExternalKey) acmeorder.AccountFacts {
	return acmeorder.AccountFacts{Account: a, ExternalKey: key}
}

func dns(names ...string) []rfc8555.Identifier {
	var ids []rfc8555.Identifier
	for _, name := range names {
		ids = append(ids, rfc8555.Identifier{Type: "dns", Value: name})
	}
	return ids
}

func ip(addresses ...string) []rfc8555.Identifier {
	var ids []rfc8555.Identifier
	for _, address := range addresses {
		ids = append(ids, rfc8555.Identifier{Type: "ip", Value: address})
	}
	return ids
}

// newOrder is an order of account for these identifiers.
func newOrder(t testing.TB, e *acmeorder.Endpoint, ids ...rfc8555.Identifier) *v1alpha1.AcmeOrder {
	t.Helper()
	admitted, p := e.AdmitOrder(acmeorder.NewOrder{Identifiers: ids}, acmeorder.OrderFacts{AccountFacts: facts(account(), nil)}, now)
	if p != nil {
		t.Fatal(p)
	}
	o := admitted.Build("order1", "seed", now)
	o.UID, o.CreationTimestamp = "order-uid", metav1.Time{Time: now}
	return o
}

// changed returns an order with a changed status.
func changed(t testing.TB, o *v1alpha1.AcmeOrder, s *v1alpha1.AcmeOrderStatus) *v1alpha1.AcmeOrder {
	t.Helper()
	if s == nil {
		t.Fatalf("the order, %s, does not permit the change", acmeorder.OrderState(o, now))
	}
	o = o.DeepCopy()
	o.Status = *s
	return o
}

// proven returns an order all of whose authorizations are valid.
func proven(t testing.TB, e *acmeorder.Endpoint, o *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrder {
	t.Helper()
	for i := range o.Status.Authorizations {
		o = changed(t, o, acmeorder.StartChallenge(o, acmeorder.Position{Authorization: i}, e.Spec().Challenges.Attempts, now))
		o = changed(t, o, acmeorder.RecordAttempt(o, acmeorder.Position{Authorization: i}, acmeorder.Attempt{}, e.Spec(), now))
	}
	return o
}

// finalized returns an order with a certificate request and a named request.
func finalized(t testing.TB, e *acmeorder.Endpoint, key crypto.Signer, ids ...rfc8555.Identifier) *v1alpha1.AcmeOrder {
	t.Helper()
	o := proven(t, e, newOrder(t, e, ids...))
	o = changed(t, o, acmeorder.Finalize(o, csrFor(t, key, o, nil), acmeorder.Reference(o, e.Profile(o.Spec.Profile)), e.Spec().Orders.ProcessingFor.Duration, now))
	return changed(t, o, acmeorder.RecordRequest(o, "request-uid", now))
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// csrFor returns the DER of a certificate request for an order.
func csrFor(t testing.TB, key crypto.Signer, o *v1alpha1.AcmeOrder, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{}
	for _, id := range o.Spec.Identifiers {
		if id.Type == "ip" {
			template.IPAddresses = append(template.IPAddresses, net.ParseIP(id.Value))
			continue
		}
		template.DNSNames = append(template.DNSNames, id.Value)
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// ca is a CA for tests.
type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newCA(t testing.TB) ca {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(10000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1, 2, 3, 4},
	}
	return ca{sign(t, template, template, key.Public(), key), key}
}

func sign(t testing.TB, template, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue returns a certificate for an order, and its chain with the root.
func (c ca) issue(t testing.TB, o *v1alpha1.AcmeOrder, key crypto.PublicKey, change func(*x509.Certificate)) (*x509.Certificate, []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x90ab), NotBefore: now.Add(-time.Minute), NotAfter: now.Add(720 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, id := range o.Spec.Identifiers {
		if id.Type == "ip" {
			template.IPAddresses = append(template.IPAddresses, net.ParseIP(id.Value))
			continue
		}
		template.DNSNames = append(template.DNSNames, id.Value)
	}
	if change != nil {
		change(template)
	}
	leaf := sign(t, template, c.cert, key, c.key)
	return leaf, pki.EncodeCertificates(leaf, c.cert)
}

// valid returns an order with its certificate.
func valid(t testing.TB, e *acmeorder.Endpoint, ids ...rfc8555.Identifier) (*v1alpha1.AcmeOrder, *x509.Certificate, crypto.Signer) {
	t.Helper()
	key := newKey(t)
	o := finalized(t, e, key, ids...)
	cert, chain := newCA(t).issue(t, o, key.Public(), nil)
	leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{PEM: chain, Lifetime: 720 * time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	return changed(t, o, acmeorder.Issue(o, leaf, now)), cert, key
}

// assertProblem compares the type of a problem, and a part of its detail.
func assertProblem(t testing.TB, p *rfc8555.Problem, kind, detail string) {
	t.Helper()
	switch {
	case p == nil && kind == "":
	case p == nil:
		t.Errorf("no problem, want %s", kind)
	case kind == "" || !p.HasType(kind) || !strings.Contains(p.Detail, detail):
		t.Errorf("%v, want %q with %q", p, kind, detail)
	}
}
