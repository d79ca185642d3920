package renew_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/renew"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/run/server"
)

func connect(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := certmanager.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// A Certificate whose Secret belongs to another Certificate is not reported as
// renewed. Once the other Certificate is gone, it is renewed.
func TestSecretOfAnother(t *testing.T) {
	s := apitest.Start(t)
	api := connect(t, s)
	add := func(name string) *cmv1.Certificate {
		t.Helper()
		crt := &cmv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       cmv1.CertificateSpec{SecretName: "shared", CommonName: name, IssuerRef: cmmeta.IssuerReference{Name: "ca"}},
		}
		if err := api.Create(t.Context(), crt); err != nil {
			t.Fatal(err)
		}
		return crt
	}
	ready := func(name string) *cmv1.CertificateCondition {
		t.Helper()
		crt := &cmv1.Certificate{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, crt); err != nil {
			t.Fatal(err)
		}
		return certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
	}
	run := func() (string, error) {
		var out bytes.Buffer
		err := renew.Run(t.Context(), renew.Config{
			Namespace: "default", Now: time.Now, Stdout: &out, Kubectl: "kubectl",
			Connect: func() (dynamic.Interface, error) { return dynamic.NewForConfig(s.Admin(t)) },
		})
		return out.String(), err
	}
	owner := add("a-first")
	apitest.Eventually(t, "the first one is looked at", func() bool { return ready("a-first") != nil })
	add("b-second")
	apitest.Eventually(t, "the second one has no Secret", func() bool {
		c := ready("b-second")
		return c != nil && c.Reason == issuance.ReasonIncorrectCertificate
	})
	const want = `renewing Certificate default/b-second: no certificate is issued for it: Secret "shared" belongs to Certificate "a-first", which names it too`
	if out, err := run(); err == nil || !strings.HasPrefix(err.Error(), want) || out != "Certificate default/a-first is being renewed\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := api.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err != nil || out != "Certificate default/b-second is being renewed\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Certificates are renewed by name, by label, or all of them, with the
// permission to update their status.
func TestRun(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{"*", "-certificates"} })
	api := connect(t, s)
	for name, labels := range map[string]map[string]string{"web": {"app": "web"}, "mail": {"app": "mail"}, "other": nil} {
		err := api.Create(t.Context(), &cmv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
			Spec:       cmv1.CertificateSpec{SecretName: name, CommonName: name, IssuerRef: cmmeta.IssuerReference{Name: "ca"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read, update := apitest.Allow("get list", "certificates"), apitest.Allow("update", "certificates/status")
	read.APIGroups, update.APIGroups = []string{certmanager.Group}, []string{certmanager.Group}
	s.Grant(t, "renewer", read, update)
	s.Grant(t, "reader", read)
	run := func(user string, cfg renew.Config) (string, error) {
		var out bytes.Buffer
		cfg.Now, cfg.Stdout, cfg.Kubectl = time.Now, &out, "kubectl"
		cfg.Connect = func() (dynamic.Interface, error) { return dynamic.NewForConfig(s.As(t, user)) }
		err := renew.Run(t.Context(), cfg)
		return out.String(), err
	}
	renewed := func(name string) bool {
		crt := &cmv1.Certificate{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, crt); err != nil {
			t.Fatal(err)
		}
		issuing := certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing)
		return issuing != nil && issuing.Status == cmmeta.ConditionTrue && issuing.Reason == issuance.ReasonManuallyTriggered
	}

	if _, err := run("reader", renew.Config{Namespace: "default", Names: []string{"web"}}); err == nil || renewed("web") {
		t.Errorf("renewed without the right to: %v", err)
	}
	out, err := run("renewer", renew.Config{Namespace: "default", Names: []string{"nosuch", "web"}})
	if err == nil || !strings.Contains(err.Error(), "default/nosuch") || !strings.Contains(out, "default/web") || !renewed("web") || renewed("mail") {
		t.Errorf("one that does not exist keeps the other: %q %v", out, err)
	}
	if _, err := run("renewer", renew.Config{Namespace: "default", Selector: "app=mail"}); err != nil || !renewed("mail") || renewed("other") {
		t.Errorf("by label: %v", err)
	}
	if _, err := run("renewer", renew.Config{}); err != nil || !renewed("other") {
		t.Errorf("all: %v", err)
	}
	if _, err := run("renewer", renew.Config{Selector: "app=nosuch"}); err == nil || err.Error() != `found no Certificate with the labels "app=nosuch" in any namespace` {
		t.Errorf("nothing was to be renewed: %v", err)
	}
	if _, err := run("renewer", renew.Config{Namespace: "kube-system"}); err == nil || err.Error() != `found no Certificate in namespace "kube-system"` {
		t.Errorf("nothing was to be renewed: %v", err)
	}
}
