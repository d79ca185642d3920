package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/issuer"
)

// ask sends an approved CertificateSigningRequest as a user.
func (w world) ask(t *testing.T, user, name, signerName string, annotations map[string]string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(t))
	csr.Annotations = annotations
	created := apitest.Create(t, apitest.Client(t, w.As(t, user)), csr)
	return apitest.Decide(t, apitest.Client(t, w.Admin(t)), created, certificatesv1.CertificateApproved)
}

// says waits until a request has a condition with this reason, and returns the
// message of the condition.
func (w world) says(t *testing.T, name string, kind certificatesv1.RequestConditionType, reason string) string {
	t.Helper()
	admin, message := apitest.Client(t, w.Admin(t)), ""
	apitest.Eventually(t, name+" is "+reason, func() bool {
		csr, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range csr.Status.Conditions {
			if condition.Type == kind && condition.Reason == reason {
				message = condition.Message
				return true
			}
		}
		return false
	})
	return message
}

// signedAfterAll waits until a request has a certificate, and not the condition
// that said why it had none.
func (w world) signedAfterAll(t *testing.T, name string, was certificatesv1.RequestConditionType) {
	t.Helper()
	admin := apitest.Client(t, w.Admin(t))
	apitest.Eventually(t, name+" is signed", func() bool {
		csr, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range csr.Status.Conditions {
			if condition.Type == was && len(csr.Status.Certificate) > 0 {
				t.Fatalf("signed, and it says %s", condition.Message)
			}
		}
		return len(csr.Status.Certificate) > 0
	})
}

// CertificateSigningRequests can name issuers: an issuer with a namespace if
// the requester may refer to it, a cluster-scoped one always. No approver runs
// here.
func TestCertificateSigningRequests(t *testing.T) {
	w := start(t)
	c := newCA(t)
	w.run(t, issuer.Controller{Sign: func(ctx context.Context, r *issuer.Request) ([]byte, error) {
		switch n := c.count(r); {
		case r.Object.GetName() == "never":
			return nil, issuer.Permanent(errors.New("no such zone"))
		case r.Object.GetName() == "flaky":
			return nil, fmt.Errorf("attempt %d", n)
		}
		return c.sign(ctx, r)
	}})
	w.create(t, remote("ca.one"), &RemoteForAll{ObjectMeta: metav1.ObjectMeta{Name: "all.of.us"}})
	apitest.NewNamespace(t, apitest.Client(t, w.Admin(t)), "elsewhere")
	creates := apitest.Allow("create", "certificatesigningrequests")
	w.Grant(t, "alice", creates, rbacv1.PolicyRule{
		APIGroups: []string{group.Group}, Resources: []string{"remotes"}, ResourceNames: []string{"ca.one", "later"}, Verbs: []string{"reference"},
	})
	w.Grant(t, "bob", creates)
	const one, all = "remotes.test.example.com/default.ca.one", "remotesforall.test.example.com/all.of.us"

	undecided := apitest.NewCSR(t, "undecided", all, pki.Subject{CommonName: "undecided"}, apitest.NewKey(t))
	apitest.Create(t, apitest.Client(t, w.As(t, "bob")), undecided)
	admin := apitest.Client(t, w.Admin(t))
	for _, csr := range []*certificatesv1.CertificateSigningRequest{
		w.ask(t, "alice", "of-one", one, map[string]string{"experimental.cert-manager.io/request-duration": "20m"}),
		w.ask(t, "bob", "of-all", all, nil),
	} {
		chain, err := pki.ParseCertificates(apitest.Issued(t, admin, csr))
		if err != nil || len(chain) != 2 || !chain[1].Equal(c.signing) {
			t.Fatalf("%s: %d certificates, %v", csr.Name, len(chain), err)
		}
		want := 90 * 24 * time.Hour
		if csr.Name == "of-one" {
			want = 20 * time.Minute
		}
		if life := chain[0].NotAfter.Sub(chain[0].NotBefore); life != want {
			t.Errorf("%s lives for %v", csr.Name, life)
		}
	}
	const failed, delayed = certificatesv1.CertificateFailed, certificatesv1.RequestConditionType("SigningDelayed")
	w.ask(t, "bob", "denied", one, nil)
	if got := w.says(t, "denied", failed, "DeniedReference"); got !=
		`the requester may not refer to the Remote "ca.one" in namespace "default": grant the verb reference on remotes.test.example.com there` {
		t.Errorf("message %q", got)
	}
	w.ask(t, "bob", "short", all, map[string]string{"experimental.cert-manager.io/request-duration": "5m"})
	w.says(t, "short", failed, "InvalidDuration")
	w.ask(t, "bob", "odd", all, map[string]string{"experimental.cert-manager.io/request-duration": "soon"})
	w.says(t, "odd", failed, "ErrorParseDuration")
	w.ask(t, "bob", "never", all, nil)
	w.says(t, "never", failed, "SigningError")
	w.ask(t, "bob", "nobody", "remotesforall.test.example.com/nobody", nil)
	w.says(t, "nobody", delayed, "IssuerNotFound")
	w.create(t, &RemoteForAll{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}})
	w.signedAfterAll(t, "nobody", delayed)
	w.ask(t, "alice", "early", "remotes.test.example.com/default.later", nil)
	w.says(t, "early", delayed, "IssuerNotFound")
	w.create(t, remote("later"))
	w.signedAfterAll(t, "early", delayed)
	begun := time.Now()
	w.ask(t, "bob", "flaky", all, nil)
	w.says(t, "flaky", delayed, "SigningRetried")
	w.told(t, "flaky", "Warning", "SigningRetried")
	c.wantPauses(t, "flaky", begun)
	if c.asked("undecided")+c.asked("denied") > 0 {
		t.Error("the CA was asked for what it should not")
	}
}
