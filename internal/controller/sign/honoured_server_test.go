package sign_test

import (
	"crypto"
	"fmt"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// writeChain writes a CA below root into the files of settings, followed by
// root.
func writeChain(t *testing.T, settings keystore.Settings, root *pki.Authority, name string) *pki.Authority {
	t.Helper()
	key := apitest.NewKey(t)
	issuing, err := root.NewIntermediate(pki.UnrecordedSigning, name, key, 24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{
		settings.KeyFile: keyPEM, settings.CertFile: pki.EncodeCertificates(issuing.Certificate(), root.Certificate()),
	} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return issuing
}

// The server honours what its own signers issue with any configured CA, for
// users and for nodes, until the certificate expires, also after a change of
// the CA and a restart. Certificates of other CAs below the same root are not
// accepted.
func TestConfiguredIsHonoured(t *testing.T) {
	settings, root := caFiles(t, t.TempDir(), "root", 48*time.Hour)
	writeChain(t, settings, root, "first")
	w := start(t, func(c *server.Config) { c.Signing.CA = settings })
	// login gets a certificate, which comes with the CA that the root has
	// issued.
	login := func(name, signerName string, subject pki.Subject) (certPEM []byte, key crypto.Signer) {
		key = apitest.NewKey(t)
		created := apitest.Create(t, w.admin, apitest.NewCSR(t, name, signerName, subject, key))
		apitest.Decide(t, w.admin, created, certificatesv1.CertificateApproved)
		certPEM = apitest.Issued(t, w.admin, created)
		if chain := parseChain(t, certPEM); len(chain) != 2 {
			t.Errorf("%s: a chain of %d", name, len(chain))
		}
		return certPEM, key
	}
	alicePEM, aliceKey := login("alice", signerName, pki.Subject{CommonName: "alice"})
	nodePEM, nodeKey := login("node", nodeClient, pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}})
	honoured := func(when string) {
		t.Helper()
		if got, err := whoAmI(t, w.LoginWith(t, alicePEM, aliceKey)); err != nil || got != "alice" {
			t.Errorf("%s alice is %q, %v", when, got, err)
		}
		if got, err := whoAmI(t, w.LoginWith(t, nodePEM, nodeKey)); err != nil || got != "system:node:n1" {
			t.Errorf("%s the node is %q, %v", when, got, err)
		}
	}
	honoured("at first")

	sibling, err := root.NewIntermediate(pki.UnrecordedSigning, "sibling", apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stranger := apitest.NewKey(t)
	chain, err := sibling.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "mallory", Organizations: []string{"system:masters"}}, stranger.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := getStatus(t, w.insist(t, chain, stranger), w.URL+"/api"); got != 401 {
		t.Errorf("another CA below the root: %d", got)
	}

	second := writeChain(t, settings, root, "second")
	n := 0
	apitest.Eventually(t, "the second CA signs, and its certificates are honoured", func() bool {
		n++
		name := fmt.Sprintf("bob-%d", n)
		bobPEM, bobKey := login(name, signerName, pki.Subject{CommonName: name})
		if parseChain(t, bobPEM)[0].CheckSignatureFrom(second.Certificate()) != nil {
			return false
		}
		got, err := whoAmI(t, w.LoginWith(t, bobPEM, bobKey))
		return err == nil && got == name
	})
	honoured("with another CA")
	w.Restart(t)
	honoured("after a restart")
}

// whoAmI asks the server.
func whoAmI(t *testing.T, cfg *rest.Config) (string, error) {
	t.Helper()
	review, err := apitest.Client(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsUnauthorized(err) {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username, err
}
