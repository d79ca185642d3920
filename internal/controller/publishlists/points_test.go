package publishlists_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// signer makes a Signer for CSRs, or for pods if it has that name.
func (f *fixture) signer(t *testing.T, name string, ca v1alpha1.SignerCA, lifetime time.Duration, revocation *v1alpha1.SignerRevocation) {
	t.Helper()
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SignerSpec{
		SignerName: "example.com/" + name, CA: ca, Revocation: revocation,
		Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
		Profile: v1alpha1.SignerProfile{
			Subject: v1alpha1.SubjectProfile{FromRequest: true}, Names: v1alpha1.NamesProfile{IPAddresses: "request.ipAddresses"}, Usages: []string{"digital signature", "server auth", "client auth"},
			Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: lifetime}},
		},
	}}
	if name == "pods" {
		signer.Spec.Requests = []v1alpha1.RequestKind{v1alpha1.PodCertificateRequests}
		signer.Spec.Profile.Subject = v1alpha1.SubjectProfile{CommonName: "pod.metadata.name"}
		signer.Spec.Profile.Names = v1alpha1.NamesProfile{}
	}
	if err := f.api.Create(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
}

// issue returns a certificate for a key, with its chain.
func (f *fixture) issue(t *testing.T, signerName string, subject pki.Subject, key crypto.Signer) []*x509.Certificate {
	t.Helper()
	api := apitest.Client(t, f.Admin(t))
	csr := apitest.NewCSR(t, "", signerName, subject, key)
	csr.GenerateName = "test-"
	if signerName != certificatesv1.KubeAPIServerClientSignerName {
		csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.UsageServerAuth)
	}
	csr = apitest.Create(t, api, csr)
	apitest.Decide(t, api, csr, certificatesv1.CertificateApproved)
	chain, err := pki.ParseBundle(apitest.Issued(t, api, csr))
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// secretCA stores a CA in a Secret.
func (f *fixture) secretCA(t *testing.T, name string, usage x509.KeyUsage) v1alpha1.SignerCA {
	t.Helper()
	key := apitest.NewKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA " + name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: usage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(ca), corev1.TLSPrivateKeyKey: keyPEM,
	}}
	if err := f.api.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: name}}
}

// own returns a certificate of the server.
func (f *fixture) own(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.Config.DataDir, "pki", name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

var generated = v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}}

// Every certificate that lives long names a list that everybody can get, also the first one of a
// CA.
func TestDistributionPoints(t *testing.T) {
	address := apitest.FreeAddress(t)
	f := start(t, func(cfg *server.Config) {
		cfg.Revocation.Listen, cfg.Revocation.URL = address, "http://crl.example.com/"
		cfg.Revocation.ShortLived.Duration = 2 * time.Hour
	})
	const long = 3 * time.Hour
	none := &v1alpha1.SignerRevocation{DistributionPoints: v1alpha1.DistributionPointsNone}
	f.signer(t, "generated", generated, long, nil)
	f.signer(t, "pods", generated, long, nil)
	f.signer(t, "built-in", v1alpha1.SignerCA{BuiltIn: &v1alpha1.BuiltInCA{}}, long, nil)
	f.signer(t, "secret", f.secretCA(t, "secret", x509.KeyUsageCertSign|x509.KeyUsageCRLSign), long, nil)
	f.signer(t, "no-usage", f.secretCA(t, "no-usage", 0), long, nil)
	f.signer(t, "unable", f.secretCA(t, "unable", x509.KeyUsageCertSign), long, nil)
	f.signer(t, "short", generated, 2*time.Hour, nil)
	f.signer(t, "none", generated, long, none)
	f.signer(t, "none-available", generated, 2*time.Hour, &v1alpha1.SignerRevocation{NoRevAvail: ptr.To(true)})
	f.signer(t, "long", generated, long, &v1alpha1.SignerRevocation{NoRevAvail: ptr.To(true)})

	key := apitest.NewKey(t)
	certs := map[string]*x509.Certificate{
		"client": f.issue(t, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "alice"}, key)[0],
		"admin":  f.own(t, "admin"), "serving": f.own(t, "serving"), "issuing": f.own(t, "client-ca"),
		"root": f.own(t, "client-ca-root"), "serving root": f.own(t, "serving-ca"),
	}
	for _, name := range []string{"generated", "built-in", "secret", "no-usage", "unable", "short", "none", "none-available", "long"} {
		certs[name] = f.issue(t, "example.com/"+name, pki.Subject{CommonName: name}, key)[0]
	}
	pod := apitest.NewBoundPod(t, apitest.Client(t, f.Admin(t)), "default", "pod", "node", apitest.PodSource("example.com/pods"))
	request := pod.Request(t, 0, key)
	if err := f.api.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the pod has a certificate", func() bool {
		if err := f.api.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
			t.Fatal(err)
		}
		return request.Status.CertificateChain != ""
	})
	chain, err := pki.ParseBundle([]byte(request.Status.CertificateChain))
	if err != nil {
		t.Fatal(err)
	}
	certs["pod"] = chain[0]

	named := []string{"client", "admin", "serving", "issuing", "generated", "built-in", "secret", "no-usage", "long", "pod"}
	for name, cert := range certs {
		available := slices.ContainsFunc(cert.Extensions, func(e pkix.Extension) bool { return e.Id.String() == "2.5.29.56" })
		if available != (name == "none-available") {
			t.Errorf("%s: noRevAvail is %v", name, available)
		}
		if got, want := len(cert.CRLDistributionPoints), slices.Contains(named, name); want != (got == 1) || got > 1 {
			t.Errorf("%s: %v", name, cert.CRLDistributionPoints)
			continue
		} else if !want {
			continue
		}
		path, ok := strings.CutPrefix(cert.CRLDistributionPoints[0], "http://crl.example.com/")
		if !ok {
			t.Errorf("%s: %v", name, cert.CRLDistributionPoints)
			continue
		}
		apitest.Eventually(t, "the list of "+name+" is served", func() bool { // the server's own: once the controllers run
			list, err := fetch(t, "http://"+address+"/"+path)
			return err == nil && string(list.RawIssuer) == string(cert.RawIssuer)
		})
		if object := get(t, f, strings.TrimSuffix(path, ".crl")); object.URL != cert.CRLDistributionPoints[0] {
			t.Errorf("%s: the RevocationList has the URL %q", name, object.URL)
		}
	}

	// Another URL changes no certificate that exists.
	f.Config.Revocation.URL = "http://other.example.com"
	f.Restart(t)
	f.connect(t)
	for _, name := range []string{"admin", "serving"} {
		if !f.own(t, name).Equal(certs[name]) {
			t.Errorf("%s was issued again", name)
		}
	}
	if got := f.issue(t, "example.com/generated", pki.Subject{CommonName: "next"}, key)[0].CRLDistributionPoints; len(got) != 1 ||
		got[0] != strings.Replace(certs["generated"].CRLDistributionPoints[0], "crl.", "other.", 1) {
		t.Errorf("after a change of the URL: %v", got)
	}
}

func fetch(t *testing.T, url string) (*x509.RevocationList, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	der, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("code %d: %w", response.StatusCode, err)
	}
	return x509.ParseRevocationList(der)
}

// Without a URL, certificates have the extensions that they had before.
func TestNoDistributionPoints(t *testing.T) {
	f := start(t)
	f.signer(t, "web", generated, 100*time.Hour, nil)
	want := []string{"2.5.29.15", "2.5.29.37", "2.5.29.19", "2.5.29.14", "2.5.29.35"}
	for name, cert := range map[string]*x509.Certificate{
		"a signer": f.issue(t, "example.com/web", pki.Subject{CommonName: "web"}, apitest.NewKey(t))[0],
		"a client": f.issue(t, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "alice"}, apitest.NewKey(t))[0],
		"admin":    f.own(t, "admin"),
	} {
		var got []string
		for _, extension := range cert.Extensions {
			got = append(got, extension.Id.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
