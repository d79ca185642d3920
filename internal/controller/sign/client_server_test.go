package sign_test

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// testClientCertificate checks that the server accepts what the signer issues.
func (w world) testClientCertificate(t *testing.T) {
	key := apitest.NewKey(t)
	request := newCSR(t, "carol", pki.Subject{CommonName: "carol", Organizations: []string{"ark", "zoo"}}, key)
	created := apitest.Create(t, w.admin, request)
	apitest.Decide(t, w.admin, created, certificatesv1.CertificateApproved)
	chain := apitest.Issued(t, w.admin, created)
	cert := w.parse(t, chain)[0]
	w.Grant(t, "carol", apitest.Allow("create", "certificatesigningrequests"))

	carol := apitest.Client(t, w.LoginWith(t, chain, key))
	forged := newCSR(t, "carol-again", pki.Subject{CommonName: "eve"}, key)
	forged.Spec.Username, forged.Spec.UID, forged.Spec.Groups = "eve", "1", []string{"system:masters"}
	forged.Spec.Extra = map[string]certificatesv1.ExtraValue{"a": {"b"}}
	got := apitest.Create(t, carol, forged)
	want := certificatesv1.CertificateSigningRequestSpec{
		Request:    forged.Spec.Request,
		SignerName: signerName,
		Usages:     forged.Spec.Usages,
		Username:   "carol",
		Groups:     []string{"ark", "zoo", "system:authenticated"},
		Extra: map[string]certificatesv1.ExtraValue{
			"authentication.kubernetes.io/credential-id": {fmt.Sprintf("X509SHA256=%x", sha256.Sum256(cert.Raw))},
		},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec of a request made with the certificate (-want +got):\n%s", diff)
	}
}

// testBadClientCertificates checks that such a certificate is worse than none:
// with it, a client cannot even read what is open to every client.
func (w world) testBadClientCertificates(t *testing.T) {
	now, key := time.Now(), apitest.NewKey(t)
	ours := w.ClientCA(t)
	namesake, err := pki.NewRoot(pki.UnrecordedSigning, ours.Certificate().Subject.CommonName, apitest.NewKey(t), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewRoot(pki.UnrecordedSigning, "another CA", apitest.NewKey(t), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		ca     *pki.Authority
		usages pki.Usages
		when   time.Time
		want   int
	}{
		{"good", ours, pki.ClientUsages(), now, http.StatusOK},
		{"expired", ours, pki.ClientUsages(), now.Add(-4 * time.Minute), http.StatusUnauthorized},
		{"not yet valid", ours, pki.ClientUsages(), now.Add(time.Hour), http.StatusUnauthorized},
		{"a server's", ours, pki.ServerUsages(), now, http.StatusUnauthorized},
		{"another CA's", other, pki.ClientUsages(), now, http.StatusUnauthorized},
		{"of a CA with our CA's name", namesake, pki.ClientUsages(), now, http.StatusUnauthorized},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			subject := pki.Subject{CommonName: "mallory", Organizations: []string{"system:masters"}}
			chain, err := tc.ca.Issue(pki.UnrecordedSigning, subject, key.Public(), tc.usages, time.Minute, tc.when)
			if err != nil {
				t.Fatal(err)
			}
			client := w.insist(t, chain, key)
			for _, path := range []string{"/livez", "/apis/certificates.k8s.io/v1/certificatesigningrequests"} {
				if got := getStatus(t, client, w.URL+path); got != tc.want {
					t.Errorf("%s answers %d, want %d", path, got, tc.want)
				}
			}
		})
	}
}

// insist returns a client that presents its certificate although the server
// does not request one of its CA.
func (w world) insist(t *testing.T, chain []*x509.Certificate, key crypto.Signer) *http.Client {
	t.Helper()
	cfg, err := rest.TLSConfigFor(w.Anonymous(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.Clone()
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		presented := &tls.Certificate{PrivateKey: key}
		for _, cert := range chain {
			presented.Certificate = append(presented.Certificate, cert.Raw)
		}
		return presented, nil
	}
	transport := &http.Transport{TLSClientConfig: cfg}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

func getStatus(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
