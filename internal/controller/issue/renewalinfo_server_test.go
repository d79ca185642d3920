package issue_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/issue"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/run/server"
)

// acmeWorld is a clock world with an ACME server. The server's answers to
// requests for renewal information are what the test says.
type acmeWorld struct {
	*world
	clock *clocktesting.FakePassiveClock
	ca    *acmetest.Server

	mu    sync.Mutex // guards all below
	reply *acmetest.Reply
	// about, if not empty, is the CertID that reply is for.
	about string
	// replaced has the CA refuse orders that replace a certificate.
	replaced bool
}

func newACMEWorld(t *testing.T, change func(*issue.Config)) *acmeWorld {
	t.Helper()
	w := &acmeWorld{}
	w.ca = acmetest.Start(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.replaced && c.Kind == acmetest.NewOrder && strings.Contains(string(c.Payload), "replaces") {
			return acmetest.Refused(http.StatusConflict, rfc8555.ProblemAlreadyReplaced, "replaced already")
		}
		if c.Kind != acmetest.RenewalInfo || !strings.Contains(c.URL, w.about) {
			return nil
		}
		return w.reply
	}})
	address := apitest.FreeAddress(t)
	s := apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{"*", "-certificates"}
		c.ACME.HTTP01.Listen, c.ACME.HTTP01.SelfCheck = []string{address}, selfcheck.Local
	})
	w.world, w.clock = newClockWorldOn(t, s, func(_ *world, c *issue.Config) {
		pool, err := acme.NewPool(acme.PoolConfig{Clock: c.Clock})
		if err != nil {
			t.Fatal(err)
		}
		c.RenewalInfo = account.New(account.Config{Pool: pool, Secrets: c.Client}).RenewalInfo
		c.Random = func(bound time.Duration) time.Duration { return bound / 2 }
		change(c)
	})
	w.issuer(t, "ca", w.ca)
	return w
}

// issuer creates an issuer and waits for its account.
func (w *acmeWorld) issuer(t *testing.T, name string, ca *acmetest.Server) {
	t.Helper()
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	issuer.Spec.ACME = &acmev1.ACMEIssuer{
		Server: ca.Directory(), CABundle: ca.CABundle(),
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name + "-account"}},
		Solvers:    []acmev1.ACMEChallengeSolver{{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}}},
	}
	w.create(t, issuer)
	eventually(t, w.world, name, "has an account", func(i *cmv1.Issuer) bool {
		return certmanager.IssuerIs(i, cmv1.IssuerConditionReady)
	})
}

// answer has the CA answer with this from now on.
func (w *acmeWorld) answer(reply *acmetest.Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reply = reply
}

// suggest has the CA suggest a window from now on.
func (w *acmeWorld) suggest(start, end time.Time) {
	w.answer(windowReply(start, end))
}

func windowReply(start, end time.Time) *acmetest.Reply {
	return &acmetest.Reply{
		Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"3600"}},
		Body: fmt.Sprintf(`{"suggestedWindow":{"start":%q,"end":%q},"explanationURL":"https://ca.example/why"}`, start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339)),
	}
}

// get creates a Certificate of an issuer and returns it once it is issued and its
// CA was asked.
func (w *acmeWorld) get(t *testing.T, name, issuer string) *cmv1.Certificate {
	t.Helper()
	crt := newCertificate(name)
	crt.Spec.IssuerRef = cmmeta.IssuerReference{Name: issuer}
	before := w.ca.Count(acmetest.RenewalInfo)
	w.create(t, crt)
	w.issued(t, name, 1)
	apitest.Eventually(t, "the CA was asked", func() bool { return issuer != "ca" || w.ca.Count(acmetest.RenewalInfo) > before })
	return w.turn(t, name)
}

// asked waits until the status is that of an answer.
func (w *acmeWorld) asked(t *testing.T, name, what string, holds func(*cmv1.Certificate, *cmv1.CertificateACMEARIStatus) bool) *cmv1.Certificate {
	t.Helper()
	return eventually(t, w.world, name, what, func(crt *cmv1.Certificate) bool {
		return crt.Status.ACME != nil && crt.Status.ACME.ARI != nil && holds(crt, crt.Status.ACME.ARI)
	})
}

// A certificate is renewed once, at the time that was chosen in the window of its
// CA, and the CA is told which certificate is replaced.
func TestRenewalInformation(t *testing.T) {
	w := newACMEWorld(t, func(*issue.Config) {})
	begin := w.clock.Now().Truncate(time.Second)
	w.suggest(begin.Add(40*24*time.Hour), begin.Add(44*24*time.Hour))
	w.get(t, "web", "ca")
	w.asked(t, "web", "is renewed in the window", func(crt *cmv1.Certificate, ari *cmv1.CertificateACMEARIStatus) bool {
		return crt.Status.RenewalTime.Time.Equal(begin.Add(42*24*time.Hour)) && ari.ExplanationURL == "https://ca.example/why" && ari.LastError == "" &&
			ari.NextCheck.Sub(ari.LastChecked.Time) == time.Hour+3*time.Minute
	})
	secret, _ := get[corev1.Secret](t, w.world, "web-tls")
	first := pki.CertID(leaf(t, secret))
	w.mu.Lock()
	w.about = first // the next one has 60 days
	w.mu.Unlock()

	due := begin.Add(11 * time.Hour)
	w.suggest(begin.Add(10*time.Hour), begin.Add(12*time.Hour))
	w.clock.SetTime(begin.Add(time.Hour))
	if crt := w.turn(t, "web"); crt.Status.RenewalTime.Time.Equal(due) {
		t.Error("the CA is asked before it wants to be")
	}
	w.clock.SetTime(begin.Add(2 * time.Hour))
	w.touch(t, "web")
	w.asked(t, "web", "is renewed earlier", func(crt *cmv1.Certificate, ari *cmv1.CertificateACMEARIStatus) bool {
		return crt.Status.RenewalTime.Time.Equal(due) && ari.SuggestedWindow.Start.Time.Equal(begin.Add(10*time.Hour))
	})
	w.clock.SetTime(due.Add(-time.Second)) // in the window for an hour
	if crt := w.turn(t, "web"); certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) || !crt.Status.RenewalTime.Time.Equal(due) {
		t.Errorf("before the time that was chosen: %+v", crt.Status)
	}
	w.clock.SetTime(due)
	w.touch(t, "web")
	w.issued(t, "web", 2)
	orders := w.ca.Calls(acmetest.NewOrder)
	if len(orders) != 2 || strings.Contains(string(orders[0].Payload), "replaces") || !strings.Contains(string(orders[1].Payload), fmt.Sprintf(`"replaces":%q`, first)) {
		t.Errorf("the orders: %+v, want a second one that replaces %s", orders, first)
	}
	if crt := w.turn(t, "web"); *crt.Status.Revision != 2 || certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) {
		t.Errorf("renewed again: %+v", crt.Status)
	}

	// Another order may have replaced it, of this Certificate before a restore.
	w.mu.Lock()
	w.about, w.replaced = "", true
	w.mu.Unlock()
	w.suggest(begin.Add(20*time.Hour), begin.Add(21*time.Hour))
	w.clock.SetTime(begin.Add(22 * time.Hour))
	w.touch(t, "web")
	w.issued(t, "web", 3)
	if n := w.ca.Count(acmetest.NewOrder); n != 4 {
		t.Errorf("%d orders, want a third that is refused, and a fourth", n)
	}
}

// Without a window of the CA, a certificate is renewed by its spec.
func TestNoRenewalInformation(t *testing.T) {
	w := newACMEWorld(t, func(*issue.Config) {})
	now := w.clock.Now()
	problem := func(status int) *acmetest.Reply {
		return &acmetest.Reply{Status: status, Problem: &rfc8555.Problem{Type: rfc8555.Namespace + "malformed", Detail: "no such certificate"}}
	}
	w.issuer(t, "silent", acmetest.Start(t, acmetest.Options{NoRenewalInfo: true}))
	tests := []struct {
		name, issuer string
		reply        *acmetest.Reply
		err          string // part of lastError; empty: there is no status.acme
	}{
		{"backwards", "ca", windowReply(now.Add(2*time.Hour), now.Add(time.Hour)), "has to end after it starts"},
		{"before", "ca", windowReply(now.Add(-2000*time.Hour), now.Add(-1000*time.Hour)), "ended long before the certificate began"},
		{"nothing", "ca", &acmetest.Reply{Status: http.StatusOK, Body: "<html>"}, "not the JSON of an ACME server"},
		{"unknown", "ca", problem(http.StatusNotFound), "no such certificate"},
		{"broken", "ca", problem(http.StatusInternalServerError), "no such certificate"},
		{"lost", "ca", &acmetest.Reply{Lost: true}, "EOF"},
		{"silent", "silent", nil, ""},
	}
	for _, tc := range tests {
		w.answer(tc.reply)
		crt := w.get(t, tc.name, tc.issuer)
		if tc.err != "" {
			crt = w.asked(t, tc.name, "has an error", func(_ *cmv1.Certificate, ari *cmv1.CertificateACMEARIStatus) bool {
				return strings.Contains(ari.LastError, tc.err)
			})
		} else if crt.Status.ACME != nil {
			t.Errorf("%s: %+v", tc.name, crt.Status.ACME)
		}
		life := crt.Status.NotAfter.Sub(crt.Status.NotBefore.Time)
		if want := crt.Status.NotAfter.Add(-life / 3).Truncate(time.Second); !crt.Status.RenewalTime.Time.Equal(want) {
			t.Errorf("%s: renewed at %v, want %v", tc.name, crt.Status.RenewalTime, want)
		}
		if got, _ := issuance.SuggestionFinding(&cmv1.Certificate{}, crt); (got.Reason == issuance.EventSuggestionError) != (tc.err != "") {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

// A server that is told not to follow CAs forgets what they have said.
func TestRenewalInformationOff(t *testing.T) {
	w := newACMEWorld(t, func(c *issue.Config) { c.Settings.RenewalInformation = false })
	crt := newCertificate("web")
	crt.Spec.IssuerRef = cmmeta.IssuerReference{Name: "ca"}
	w.create(t, crt)
	crt = w.issued(t, "web", 1)
	classic := crt.Status.RenewalTime.Time
	at := metav1.NewTime(w.clock.Now().Add(48 * time.Hour).Truncate(time.Second))
	stored := client.MergeFrom(crt.DeepCopy()) // the controller writes the status, too
	crt.Status.RenewalTime = &at
	crt.Status.ACME = &cmv1.CertificateACMEStatus{ARI: &cmv1.CertificateACMEARIStatus{SuggestedWindow: &cmv1.ACMERenewalWindow{Start: &at, End: &at}}}
	if err := w.api.Status().Patch(t.Context(), crt, stored); err != nil {
		t.Fatal(err)
	}
	eventually(t, w.world, "web", "is renewed by its spec", func(crt *cmv1.Certificate) bool {
		return crt.Status.ACME == nil && crt.Status.RenewalTime.Time.Equal(classic)
	})
	if n := w.ca.Count(acmetest.RenewalInfo); n != 0 {
		t.Errorf("the CA was asked %d times", n)
	}
}
