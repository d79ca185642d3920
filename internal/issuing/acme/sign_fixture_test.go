package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
)

type signWorld struct {
	api    client.Client
	issuer *cmv1.ClusterIssuer
	*signing
	// failOn fails the calls of these verbs.
	failOn map[string]bool
}

func newSignWorld(t *testing.T) *signWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, certmanager.AddToScheme} {
		must(t, add(scheme))
	}
	w := &signWorld{issuer: &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "le"}}, failOn: map[string]bool{}}
	w.issuer.Spec.ACME = &acmev1.ACMEIssuer{}
	broken := errors.New("the API is not available")
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&acmev1.Order{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if w.failOn["create"] {
				return broken
			}
			return c.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.failOn["get"] {
				return broken
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	w.signing = &signing{Config: issuing.Config{Client: w.api, ClusterResources: "cert-manager"}, replaces: true}
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func csrOf(t *testing.T, key crypto.Signer, template x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func oneName(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	return csrOf(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "a.example.com"}, DNSNames: []string{"a.example.com"}})
}

func certificateRequest(name string, uid types.UID, csr []byte) *cmv1.CertificateRequest {
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: uid,
			Labels: map[string]string{"team": "web"}, Annotations: map[string]string{"acme.cert-manager.io/http01-parentrefname": "gw", "other": "x"},
		},
		Spec: cmv1.CertificateRequestSpec{Request: csr, IssuerRef: cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer", Group: "cert-manager.io"}},
	}
}

// sign asks for a certificate and describes the verdict: its kind, its reason
// and its text.
func (w *signWorld) sign(t *testing.T, req request.Request) (*signer.Issued, string) {
	t.Helper()
	asked, err := issuing.RequestOf(req)
	must(t, err)
	issued, err := w.Sign(t.Context(), w.issuer, asked, time.Now())
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	switch {
	case errors.As(err, &permanent):
		return nil, fmt.Sprintf("Failed %s: %v", permanent.Reason, err)
	case errors.As(err, &pending) && pending.Watched:
		return nil, fmt.Sprintf("Pending %s: %s", pending.Reason, pending.Message)
	case errors.As(err, &pending):
		return nil, fmt.Sprintf("Retry %s: %s", pending.Reason, pending.Message)
	}
	must(t, err)
	return issued, "Issued"
}

func (w *signWorld) ofCR(t *testing.T, cr *cmv1.CertificateRequest) (*signer.Issued, string) {
	t.Helper()
	return w.sign(t, request.FromCertificateRequest(cr))
}

// says checks a verdict; one that ends with "..." may go on.
func says(t *testing.T, reason, got, want string) {
	t.Helper()
	if prefix, ok := strings.CutSuffix(want, "..."); got != want && (!ok || !strings.HasPrefix(got, prefix)) {
		t.Errorf("%s:\n got %s\nwant %s", reason, got, want)
	}
}

func (w *signWorld) orders(t *testing.T) []acmev1.Order {
	t.Helper()
	list := &acmev1.OrderList{}
	must(t, w.api.List(t.Context(), list))
	return list.Items
}

// set changes the status of the only Order.
func (w *signWorld) set(t *testing.T, change func(*acmev1.OrderStatus)) {
	t.Helper()
	o := w.orders(t)[0]
	change(&o.Status)
	must(t, w.api.Status().Update(t.Context(), &o))
}

// chainFor returns a certificate for a key, below a CA whose certificate comes
// with it.
func chainFor(t *testing.T, key crypto.Signer, change func(*x509.Certificate)) []byte {
	t.Helper()
	caKey := newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "intermediate"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1, 2, 3},
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(0x87654321), DNSNames: []string{"a.example.com"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(leaf)
	}
	var out []byte
	for _, cert := range []struct {
		template *x509.Certificate
		key      crypto.PublicKey
	}{{leaf, key.Public()}, {ca, caKey.Public()}} {
		der, err := x509.CreateCertificate(rand.Reader, cert.template, ca, cert.key, caKey)
		must(t, err)
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}
