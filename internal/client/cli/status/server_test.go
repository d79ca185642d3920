package status_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/status"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/run/server"
)

// world is a server whose requests a user has to approve.
type world struct {
	*apitest.Server
	admin explain.API
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{Server: apitest.Start(t, func(c *server.Config) { c.Controllers = []string{"*", "-certificaterequests-approver"} })}
	w.admin = w.as(t, "")
	w.create(t, &cmv1.Issuer{ObjectMeta: in("own"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	return w
}

// as returns a client of a user; "" is the administrator.
func (w world) as(t *testing.T, user string) explain.API {
	t.Helper()
	cfg := w.Admin(t)
	if user != "" {
		cfg = w.As(t, user)
	}
	c, err := explain.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func in(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

func (w world) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func certificate(name, issuer string) *cmv1.Certificate {
	return &cmv1.Certificate{ObjectMeta: in(name), Spec: cmv1.CertificateSpec{
		SecretName: name + "-tls", CommonName: name, DNSNames: []string{name + ".example.com"},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
		IssuerRef:  cmmeta.IssuerReference{Name: issuer},
	}}
}

// says waits until the status of a Certificate matches all patterns.
func (w world) says(t *testing.T, c explain.API, name string, patterns ...string) string {
	t.Helper()
	var said string
	for _, pattern := range patterns {
		expression := regexp.MustCompile(`(?m)` + pattern)
		apitest.Eventually(t, pattern, func() bool {
			said = w.tell(t, c, name)
			return expression.MatchString(said)
		})
	}
	return said
}

func (w world) tell(t *testing.T, c explain.API, name string) string {
	t.Helper()
	return w.print(t, c, name, "")
}

func (w world) print(t *testing.T, c explain.API, name, format string) string {
	t.Helper()
	var out bytes.Buffer
	err := status.Certificate(t.Context(), verb.Config{
		Namespace: "default", Name: name, Kubectl: []string{"certplane", "kubectl"}, Flags: []string{"--context", "here"}, Now: time.Now, Stdout: &out, Output: format,
		Connect: func() (explain.Reader, error) { return c, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The test follows a Certificate from what delays it to its certificate. The
// status never shows the key.
func TestCertificate(t *testing.T) {
	w := newWorld(t)
	w.create(t, certificate("web", "own"))
	w.says(t, w.admin, "web",
		`^web is not ready, and its certificate is under way: web-1 waits for approval`,
		`^  issuer +Issuer own$`,
		`^  Issuing +True +\S+ ago +DoesNotExist `,
		`^Issuer own\n  Ready +True `,
		`^Secret web-tls\n  it does not exist$`,
		`^CertificateRequest web-1\n  has not been approved or denied yet$`,
		`^Events of CertificateRequest web-1\n +\S+ ago +Normal +WaitingForApproval `,
		`^Next\n.*\n    certplane approve -n default web-1 --context here$`,
	)

	w.approve(t, "web-1")
	said := w.says(t, w.admin, "web",
		`^web is ready: its certificate is valid until `,
		`^  revision +1$`,
		`^  not after +\S+ \(in 89d\)$`,
		`^Events\n(.*\n)* +\S+ ago +Normal +Issuing +The certificate has been successfully issued$`,
		`^Secret web-tls\n  type +kubernetes.io/tls\n`,
		`^  names +DNS:web.example.com$`,
		`^CertificateRequest for revision 2\n  none: no certificate is being issued$`,
	)
	if strings.Contains(said, "\nNext\n") {
		t.Errorf("there is nothing to do:\n%s", said)
	}
	secret := &corev1.Secret{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-tls"}, secret); err != nil {
		t.Fatal(err)
	}
	said += w.print(t, w.admin, "web", "json")
	for line := range strings.Lines(string(secret.Data["tls.key"])) {
		if strings.Contains(said, strings.TrimSpace(line)) {
			t.Errorf("shows the key:\n%s", said)
		}
	}
}

// report returns the status for machines.
func (w world) report(t *testing.T, name, format string) status.Report {
	t.Helper()
	var r status.Report
	if err := yaml.UnmarshalStrict([]byte(w.print(t, w.admin, name, format)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The report for machines says the same as the text for people, in fields.
func TestReport(t *testing.T) {
	w := newWorld(t)
	w.create(t, certificate("web", "own"))
	w.says(t, w.admin, "web", `^CertificateRequest web-1$`, `^Events of CertificateRequest web-1$`)
	r := w.report(t, "web", "json")
	if r.Ready || !strings.HasPrefix(r.Verdict, "web is not ready, ") || r.Revision != nil || r.NotAfter != nil {
		t.Errorf("%+v", r)
	}
	if r.IssuerRef.Kind != "Issuer" || r.IssuerRef.Group != "cert-manager.io" || r.Issuer.Name != "own" || r.Issuer.Problem != "" || len(r.Issuer.Conditions) != 1 {
		t.Errorf("issuer %+v, %+v", r.IssuerRef, r.Issuer)
	}
	if r.Request == nil || r.Request.Name != "web-1" || len(r.Request.Events) == 0 || r.Secret.Name != "web-tls" || r.Secret.Problem != "it does not exist" {
		t.Errorf("request %+v, Secret %+v", r.Request, r.Secret)
	}
	if r.Next == nil || strings.Join(r.Next.Command, " ") != "certplane approve -n default web-1 --context here" {
		t.Errorf("next %+v", r.Next)
	}
	if r.State != explain.CertificateIssuing || len(r.Checks) == 0 || len(r.Steps) == 0 || r.Steps[0].Text != r.Next.Text {
		t.Errorf("state %s, checks %+v, steps %+v", r.State, r.Checks, r.Steps)
	}

	w.approve(t, "web-1")
	w.says(t, w.admin, "web", `^web is ready: its certificate is valid until `, `^CertificateRequest for revision 2$`)
	r = w.report(t, "web", "yaml")
	if !r.Ready || r.Revision == nil || *r.Revision != 1 || r.NotAfter == nil || r.RenewalTime == nil || r.Request != nil || r.Next != nil || r.Steps != nil {
		t.Errorf("%+v", r)
	}
	if c := r.Secret.Certificate; c == nil || !c.NotAfter.Equal(*r.NotAfter) || len(c.Names) != 1 || c.Names[0] != "DNS:web.example.com" {
		t.Errorf("certificate %+v", c)
	}
	if len(r.Conditions) == 0 || r.Conditions[0].LastTransitionTime == nil || len(r.Events) == 0 || len(r.Problems) > 0 {
		t.Errorf("conditions %+v, events %+v, problems %v", r.Conditions, r.Events, r.Problems)
	}
}

func (w world) approve(t *testing.T, name string) {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	apitest.Eventually(t, name+" is approved", func() bool { // controllers write it, too
		if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionApproved, cmmeta.ConditionTrue, "Test", "test", metav1.Now())
		return w.admin.Status().Update(t.Context(), cr) == nil
	})
}

// The status says what is missing, and what to do about it.
func TestCertificateWithout(t *testing.T) {
	w := newWorld(t)
	w.create(t, certificate("lost", "nowhere"))
	w.says(t, w.admin, "lost", `^Issuer nowhere\n  it does not exist$`, `^Next\n  Create the issuer, or correct spec\.issuerRef\. To list them:\n    certplane kubectl --context here get issuers.cert-manager.io -n default$`)
	confused := certificate("confused", "own")
	confused.Spec.IssuerRef.Kind = cmv1.ClusterIssuerKind
	w.create(t, confused)
	w.says(t, w.admin, "confused", `^ClusterIssuer own\n  it does not exist$`, `an Issuer in the namespace default has that name: is kind Issuer meant\?$`, `^Next\n  Create the issuer, or correct spec\.issuerRef\.`)

	w.create(t, &cmv1.Issuer{ObjectMeta: in("empty"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "none"}}}})
	w.create(t, certificate("stuck", "empty"))
	w.says(t, w.admin, "stuck", `^Issuer empty\n  Ready +False .* ErrGetKeyPair `, `^Events of Issuer empty\n`, `^Next\n  Fix the issuer`)

	foreign := certificate("foreign", "theirs")
	foreign.Spec.IssuerRef.Group = "example.com"
	w.create(t, foreign)
	w.says(t, w.admin, "foreign", `^Issuer theirs of example.com\n  it is of the group example.com: see there$`)

	w.says(t, w.admin, "foreign", `^Next\n  Install the program that brings the kind Issuer of example.com; if the name is wrong, correct spec\.issuerRef\.$`)

	venafi := &cmv1.VenafiIssuer{Zone: "web", TPP: &cmv1.VenafiTPP{URL: "https://tpp.example.com", CredentialsRef: cmmeta.LocalObjectReference{Name: "tpp"}}}
	w.create(t, &cmv1.Issuer{ObjectMeta: in("venafi"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{Venafi: venafi}}})
	w.create(t, certificate("other", "venafi"))
	w.says(t, w.admin, "other", `^Next\n  certplane signs for issuers of the types acme, ca, selfSigned and vault, not venafi\..*\n    certplane kubectl --context here get issuers`)

	read := apitest.Allow("get", "certificates")
	read.APIGroups = []string{certmanager.Group}
	w.Grant(t, "reader", read)
	w.says(t, w.as(t, "reader"), "lost",
		`^Events\n  you may not list events in the namespace default$`, `^Issuer nowhere\n  you may not read it$`, `^Secret lost-tls\n  you may not read it$`,
		`^CertificateRequest for revision 1\n  you may not list certificaterequests in the namespace default$`)

	err := status.Certificate(t.Context(), verb.Config{
		Namespace: "default", Name: "nosuch", Now: time.Now, Connect: func() (explain.Reader, error) { return w.admin, nil },
	})
	if err == nil || !strings.Contains(err.Error(), `found no Certificate named nosuch in the namespace default`) {
		t.Errorf("error %v", err)
	}
}
