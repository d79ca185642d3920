package sign_test

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const (
	nodeClient  = certificatesv1.KubeAPIServerClientKubeletSignerName
	nodeServing = certificatesv1.KubeletServingSignerName
)

// testSigners checks that each signer answers its own requests by its own
// rules.
func (w world) testSigners(t *testing.T) {
	node := pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}
	addressed := node
	addressed.DNSNames, addressed.IPAddresses = []string{"n1"}, []net.IP{{192, 0, 2, 1}}
	tests := []struct {
		reason   string
		signer   string
		subject  pki.Subject
		usages   []certificatesv1.KeyUsage
		extended x509.ExtKeyUsage
		fails    string
	}{
		{"node client", nodeClient, node, []certificatesv1.KeyUsage{"digital signature", "key encipherment", "client auth"}, x509.ExtKeyUsageClientAuth, ""},
		{"node server", nodeServing, addressed, []certificatesv1.KeyUsage{"digital signature", "server auth"}, x509.ExtKeyUsageServerAuth, ""},
		{"node client with names", nodeClient, addressed, []certificatesv1.KeyUsage{"digital signature", "client auth"}, 0, "DNS subjectAltNames are not allowed"},
		{"node server without names", nodeServing, node, []certificatesv1.KeyUsage{"digital signature", "server auth"}, 0, "DNS or IP subjectAltName is required"},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			request := apitest.NewCSR(t, fmt.Sprintf("signer-%d", i), tc.signer, tc.subject, apitest.NewKey(t))
			request.Spec.Usages, request.Spec.ExpirationSeconds = tc.usages, ptr.To[int32](3600)
			created := apitest.Create(t, w.admin, request)
			apitest.Decide(t, w.admin, created, certificatesv1.CertificateApproved)
			if tc.fails != "" {
				failed := w.waitFor(t, created.Name, func(c *csr) bool { return len(c.Status.Conditions) > 1 })
				if got := failed.Status.Conditions[1]; got.Type != certificatesv1.CertificateFailed || got.Reason != "SignerValidationFailure" || got.Message != tc.fails {
					t.Errorf("condition %+v", got)
				}
				return
			}
			cert := w.parse(t, apitest.Issued(t, w.admin, created))[0]
			if diff := cmp.Diff([]x509.ExtKeyUsage{tc.extended}, cert.ExtKeyUsage); diff != "" {
				t.Errorf("extended usages (-want +got):\n%s", diff)
			}
			if cert.Subject.CommonName != "system:node:n1" || !slices.Equal(cert.DNSNames, tc.subject.DNSNames) || span(cert) != 65*time.Minute {
				t.Errorf("certificate of %s, %v, for %v", cert.Subject, cert.DNSNames, span(cert))
			}
		})
	}
}

// storeLegacy stores an approved request from before signers had names, which
// no API accepts.
func (w world) storeLegacy(t *testing.T, name string, subject pki.Subject, usages ...certificatesv1.KeyUsage) *csr {
	t.Helper()
	request := apitest.NewCSR(t, name, "kubernetes.io/legacy-unknown", subject, apitest.NewKey(t))
	request.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
	request.UID, request.CreationTimestamp, request.Spec.Usages = types.UID(name+"-uid"), metav1.Now(), usages
	stored, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	w.Store(t, "/registry/certificatesigningrequests/"+name, string(stored))
	apitest.Decide(t, w.admin, w.get(t, name), certificatesv1.CertificateApproved)
	return request
}

// testLegacySigner checks the legacy signer. No API accepts new requests for
// it, but a store can have them. It signs for any usage, but for no user who is
// above authorization.
func (w world) testLegacySigner(t *testing.T) {
	request := w.storeLegacy(t, "legacy", pki.Subject{CommonName: "old", DNSNames: []string{"old.example.com"}}, "signing", "any")
	masters := w.storeLegacy(t, "legacy-master", pki.Subject{CommonName: "mallory", Organizations: []string{"ark", "system:masters"}}, "client auth")
	failed := w.waitFor(t, masters.Name, func(c *csr) bool { return len(c.Status.Conditions) > 1 })
	if got := failed.Status.Conditions[1]; got.Type != certificatesv1.CertificateFailed || !strings.Contains(got.Message, "group system:masters cannot be requested") {
		t.Errorf("system:masters: %+v", got)
	}
	cert := w.parse(t, apitest.Issued(t, w.admin, request))[0]
	if cert.Subject.CommonName != "old" || cert.KeyUsage != x509.KeyUsageDigitalSignature || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageAny}) {
		t.Errorf("certificate of %s with usages %b, %v", cert.Subject, cert.KeyUsage, cert.ExtKeyUsage)
	}
}

// caFiles writes a root CA with this lifetime.
func caFiles(t *testing.T, dir, name string, life time.Duration) (keystore.Settings, *pki.Authority) {
	t.Helper()
	key := apitest.NewKey(t)
	ca, err := pki.NewRoot(pki.UnrecordedSigning, name, key, life, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	settings := keystore.Settings{CertFile: filepath.Join(dir, "ca.crt"), KeyFile: filepath.Join(dir, "ca.key")}
	for file, data := range map[string][]byte{settings.KeyFile: keyPEM, settings.CertFile: pki.EncodeCertificates(ca.Certificate())} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return settings, ca
}

// TestConfiguredRoot checks that a root CA issues certificates without a chain,
// as in Kubernetes, and that a changed CA is followed. There is a warning
// before it expires.
func TestConfiguredRoot(t *testing.T) {
	dir := t.TempDir()
	settings, ca := caFiles(t, dir, "first", 2*time.Hour)
	w := start(t, func(c *server.Config) { c.Signing.CA = settings })
	issue := func(name string) []*x509.Certificate {
		created := apitest.Create(t, w.admin, newCSR(t, name, pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
		apitest.Decide(t, w.admin, created, certificatesv1.CertificateApproved)
		return parseChain(t, apitest.Issued(t, w.admin, created))
	}
	chain := issue("first")
	if len(chain) != 1 || chain[0].CheckSignatureFrom(ca.Certificate()) != nil {
		t.Fatalf("%d certificates, the first from %s", len(chain), chain[0].Issuer)
	}
	if !chain[0].NotAfter.Equal(ca.Certificate().NotAfter) {
		t.Errorf("the certificate ends on %v, the CA on %v", chain[0].NotAfter, ca.Certificate().NotAfter)
	}
	w.wantEvent(t, "default", "regarding.name=first", "Issued", "earlier than requested")
	w.wantEvent(t, "kube-system", "regarding.name=csr-signer", "CAEndsSoon", "The CA of signer kubernetes.io/kube-apiserver-client expires on")
	w.wantEvent(t, "kube-system", "regarding.name=csr-signer", "CAEndsSoon", "The CA of signer kubernetes.io/kubelet-serving expires on")

	_, next := caFiles(t, dir, "second", 10*time.Hour)
	n := 0
	apitest.Eventually(t, "the second CA signs", func() bool {
		n++
		chain = issue(fmt.Sprintf("then-%d", n))
		return chain[0].CheckSignatureFrom(next.Certificate()) == nil
	})
}

func (w world) wantEvent(t *testing.T, namespace, selector, reason, note string) {
	t.Helper()
	apitest.Eventually(t, "there is an event "+reason+" about "+selector, func() bool {
		list, err := w.admin.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == reason && e.ReportingController == "certplane.dev/csr-signer" && strings.Contains(e.Note, note)
		})
	})
}

// TestConfiguredForOneSigner checks that the other signers get the generated
// CA.
func TestConfiguredForOneSigner(t *testing.T) {
	settings, ca := caFiles(t, t.TempDir(), "only for nodes", 1000*time.Hour)
	w := start(t, func(c *server.Config) {
		c.Signing.Signers = []sign.SignerSettings{{Name: nodeServing, CA: settings, MaxDuration: metav1.Duration{Duration: time.Hour}, Strict: true}}
	})
	request := apitest.NewCSR(t, "node", nodeServing, pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}, DNSNames: []string{"n1"}}, apitest.NewKey(t))
	request.Spec.Usages = []certificatesv1.KeyUsage{"digital signature", "server auth"}
	created := apitest.Create(t, w.admin, request)
	apitest.Decide(t, w.admin, created, certificatesv1.CertificateApproved)
	chain := parseChain(t, apitest.Issued(t, w.admin, created))
	if len(chain) != 1 || chain[0].CheckSignatureFrom(ca.Certificate()) != nil || span(chain[0]) != 65*time.Minute {
		t.Errorf("%d certificates, the first from %s for %v", len(chain), chain[0].Issuer, span(chain[0]))
	}
	w.issue(t, newCSR(t, "other", pki.Subject{CommonName: "x"}, apitest.NewKey(t)))

	request.Name = "wrong"
	request.Spec.Request = apitest.NewCSR(t, "wrong", nodeServing, pki.Subject{CommonName: "system:node:N1", Organizations: []string{"system:nodes"}, DNSNames: []string{"n1"}}, apitest.NewKey(t)).Spec.Request
	apitest.Decide(t, w.admin, apitest.Create(t, w.admin, request), certificatesv1.CertificateApproved)
	failed := w.waitFor(t, "wrong", func(c *csr) bool { return len(c.Status.Conditions) > 1 })
	if got := failed.Status.Conditions[1]; got.Message != "subject common name has no valid node name after system:node:" {
		t.Errorf("condition %+v", got)
	}
}
