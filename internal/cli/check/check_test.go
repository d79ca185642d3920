package check_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/cli/check"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/pki"
)

// world is a server that is checked at other times than now.
type world struct{ *apitest.Server }

// checks returns the checks of a time from now.
func (w world) checks(t *testing.T, in time.Duration) check.Report {
	t.Helper()
	report, err := check.Run(t.Context(), check.Config{
		Client: w.Admin(t), Now: func() time.Time { return time.Now().Add(in) },
		Line: func(words ...string) string { return print.CommandLine(append([]string{"certplane"}, words...)...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// eventually waits until a check of a topic has a result, and a text with a part.
func (w world) eventually(t *testing.T, in time.Duration, topic string, result check.Result, part string) check.Check {
	t.Helper()
	var found check.Check
	apitest.Eventually(t, topic+": "+part, func() bool {
		for _, c := range w.checks(t, in).Checks {
			if c.Topic == topic && c.Result == result && strings.Contains(c.Text, part) {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

func TestTimes(t *testing.T) {
	w := world{apitest.Start(t)}
	for _, tt := range []struct {
		reason string
		in     time.Duration
		topic  string
		result check.Result
		text   string
	}{
		{"clocks agree", 0, "Server", check.OK, "its clock and that of this machine agree"},
		{"this clock is ahead", time.Minute, "Server", check.Warning, "is 60s ahead of that of the server"},
		{"this clock is behind", -time.Hour, "Server", check.Failed, "is 60m behind that of the server"},
		{"half of the time is over", 180 * 24 * time.Hour, "Credential", check.OK, "your client certificate ends on "},
		{"the last days", 350 * 24 * time.Hour, "Credential", check.Warning, "your client certificate ends on "},
		{"ended", 370 * 24 * time.Hour, "Credential", check.Failed, "your client certificate ended on "},
		{"the server's certificate has ended", 370 * 24 * time.Hour, "Server", check.Failed, "its certificate ended on "},
		{"roots have ended", 20 * 365 * 24 * time.Hour, "Trust bundles", check.Failed, "all roots of kubernetes.io/kubelet-serving have ended"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if found := w.eventually(t, tt.in, tt.topic, tt.result, tt.text); (found.Next == nil) != (tt.result == check.OK) {
				t.Errorf("what to do: %q", found.Next)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	w := world{apitest.Start(t)}
	client := apitest.Client(t, w.Admin(t))
	subject := pki.Subject{CommonName: "web"}
	apitest.Create(t, client, apitest.NewCSR(t, "undecided", "example.com/nobody", subject, apitest.NewKey(t)))
	unsigned := apitest.Create(t, client, apitest.NewCSR(t, "unsigned", "example.com/nobody", subject, apitest.NewKey(t)))
	apitest.Decide(t, client, unsigned, certificatesv1.CertificateApproved)

	if found := w.eventually(t, 2*time.Hour, "Requests", check.Warning, "CertificateSigningRequest undecided for example.com/nobody has waited for 120m to be approved or denied"); strings.Join(found.Next, "") != "certplane explain csr undecided" {
		t.Errorf("what to do: %q", found.Next)
	}
	w.eventually(t, 2*time.Hour, "Requests", check.Failed, "CertificateSigningRequest unsigned for example.com/nobody has waited for 120m to be signed")
	w.eventually(t, 0, "Requests", check.OK, "2 requests, none of which waits for long")
}

func TestCertificates(t *testing.T) {
	w := world{apitest.Start(t)}
	api, err := explain.Connect(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	issuer := &cmv1.Issuer{ObjectMeta: in("own"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}}
	certificate := func(name, issuer string) *cmv1.Certificate {
		return &cmv1.Certificate{ObjectMeta: in(name), Spec: cmv1.CertificateSpec{
			SecretName: name, DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: issuer},
		}}
	}
	for _, create := range []func() error{
		func() error { return api.Create(t.Context(), issuer) },
		func() error { return api.Create(t.Context(), certificate("good", "own")) },
	} {
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	w.eventually(t, 0, "Certificates", check.OK, "1 Certificate is ready")
	w.eventually(t, 70*day, "Certificates", check.Warning, "Certificate default/good: it should have been renewed ")
	w.eventually(t, 100*day, "Certificates", check.Failed, "Certificate default/good: it ended on ")
	// A Certificate is renewed: for the inventory too there is a newer one then.
	w.eventually(t, 88*day, "Inventory", check.Warning, "the certificate of issuers.cert-manager.io/default.own for good.example.com ends on ")

	if err := api.Create(t.Context(), certificate("bad", "nowhere")); err != nil {
		t.Fatal(err)
	}
	found := w.eventually(t, time.Hour, "Certificates", check.Failed, "Certificate default/bad: not ready: ")
	if strings.Join(found.Next, "") != "certplane explain certificate bad -n default" {
		t.Errorf("what to do: %q", found.Next)
	}
}

// What ends soon is no matter once there is a newer certificate of the same signer and names.
func TestInventory(t *testing.T) {
	w := world{apitest.Start(t)}
	client := apitest.Client(t, w.Admin(t))
	issue := func(name string, seconds int32) {
		csr := apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "deploy"}, apitest.NewKey(t))
		csr.Spec.ExpirationSeconds = &seconds
		created := apitest.Create(t, client, csr)
		apitest.Issued(t, client, apitest.Decide(t, client, created, certificatesv1.CertificateApproved))
	}
	const nearEnd = 55 * time.Minute
	issue("first", 3600)
	w.eventually(t, nearEnd, "Inventory", check.Warning, "the certificate of kubernetes.io/kube-apiserver-client for CN=deploy ends on ")
	w.eventually(t, 0, "Inventory", check.OK, "no recorded certificate ends within 7 days without a newer one")
	issue("second", 7200)
	w.eventually(t, nearEnd, "Inventory", check.OK, "no recorded certificate ends within 7 days without a newer one")
}
