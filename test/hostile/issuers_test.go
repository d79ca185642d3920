package hostile

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// others is the namespace of a tenant whose Issuer must continue to sign.
const others = "team-b"

func inNamespace(namespace, version, resource string) string {
	return "/" + version + "/namespaces/" + namespace + "/" + resource
}

const (
	coreVersion        = "api/v1"
	certManagerVersion = "apis/cert-manager.io/v1"
)

// newIssuer returns an Issuer of type CA with this Secret.
func newIssuer(name string) *cmv1.Issuer {
	return &cmv1.Issuer{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "Issuer"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: name}}},
	}
}

// newCASecret returns a Secret with a key and certificates.
func newCASecret(name string, keyPEM []byte, certs ...*x509.Certificate) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSPrivateKeyKey: keyPEM, corev1.TLSCertKey: pki.EncodeCertificates(certs...)},
	}
}

func newCertificateRequest(prefix, issuer string) (*cmv1.CertificateRequest, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	csr, err := pki.NewRequest(pki.Subject{DNSNames: []string{"web.example.com"}}, key)
	return &cmv1.CertificateRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "CertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: issuer}, Request: csr},
	}, err
}

// makeIssuer creates an Issuer in the namespace of the others.
func (w *world) makeIssuer(t *testing.T) {
	t.Helper()
	apitest.NewNamespace(t, w.admin, others)
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	who, err := client(w.Admin(t), false)
	if err != nil {
		t.Fatal(err)
	}
	for path, object := range map[string]any{
		inNamespace(others, coreVersion, "secrets"):        newCASecret("ca", keyPEM, root.Certificate()),
		inNamespace(others, certManagerVersion, "issuers"): newIssuer("ca"),
	} {
		if err := w.do(t.Context(), who, http.MethodPost, path, object, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// issue makes the others' Issuer sign.
func (w *world) issue(ctx context.Context, who *http.Client) error {
	path := inNamespace(others, certManagerVersion, "certificaterequests")
	cr, err := newCertificateRequest("seen-", "ca")
	if err != nil {
		return err
	}
	if err := w.do(ctx, who, http.MethodPost, path, cr, cr); err != nil {
		return err
	}
	for {
		if err := w.do(ctx, who, http.MethodGet, path+"/"+cr.Name, nil, cr); err != nil {
			return err
		}
		if certmanager.ReadyReason(cr) == cmv1.CertificateRequestReasonIssued {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the certificate of %s, which has %v: %w", cr.Name, cr.Status.Conditions, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dearCAs creates a Secret in which every certificate may have issued every
// other one, with keys that are expensive to verify with. It changes all the
// time, and requests wait for it.
func dearCAs(many int) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		who, err := client(cfg, false)
		if err != nil {
			return err
		}
		secret, err := dearSecret("flood", many)
		if err != nil {
			return err
		}
		secrets, requests := inNamespace(team, coreVersion, "secrets"), inNamespace(team, certManagerVersion, "certificaterequests")
		if err := w.do(ctx, who, http.MethodPost, inNamespace(team, certManagerVersion, "issuers"), newIssuer("flood"), nil); err != nil {
			return err
		}
		if err := w.do(ctx, who, http.MethodPost, secrets, secret, nil); err != nil {
			return err
		}
		for i := 0; ctx.Err() == nil; i++ {
			cr, err := newCertificateRequest("flood-", "flood")
			if err != nil {
				return err
			}
			if err := w.do(ctx, who, http.MethodPost, requests, cr, nil); err != nil {
				counts.add("a request that is refused")
			} else {
				counts.add("a request")
			}
			metav1.SetMetaDataLabel(&secret.ObjectMeta, "change", fmt.Sprint(i))
			if err := w.do(ctx, who, http.MethodPut, secrets+"/flood", secret, nil); err != nil {
				counts.add("a change that is refused")
			} else {
				counts.add("a change")
			}
			if i == 6 {
				armed()
			}
			pause(ctx)
		}
		return nil
	}
}

func dearSecret(name string, many int) (*corev1.Secret, error) {
	key, err := pki.GenerateKey(pki.ECDSAP521)
	if err != nil {
		return nil, err
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "flood"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1},
	}
	var certs []*x509.Certificate
	for i := range many {
		template.SerialNumber = big.NewInt(int64(i + 1))
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, err
		}
		certs = append(certs, &x509.Certificate{Raw: der})
	}
	return newCASecret(name, keyPEM, certs...), nil
}
