package webhook_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/issuing/signer/webhook/webhooktest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const signerName = "example.com/my-signer"

type csr = certificatesv1.CertificateSigningRequest

// world is a server with two endpoints: one for a signer, one for all others
// of its domain and for a built-in one.
type world struct {
	*apitest.Server
	admin       kubernetes.Interface
	one, domain *webhooktest.Endpoint
}

func settings(e *webhooktest.Endpoint, signerName string) webhook.Settings {
	return webhook.Settings{
		SignerName: signerName, URL: e.URL, CAFile: e.CAFile,
		CertFile: e.CertFile, KeyFile: e.KeyFile, TokenFile: e.TokenFile,
		MaxDuration: metav1.Duration{Duration: 24 * time.Hour},
	}
}

func start(t *testing.T) world {
	t.Helper()
	w := world{one: webhooktest.Start(t), domain: webhooktest.Start(t)}
	w.Server = apitest.Start(t, func(c *server.Config) {
		c.Signing.Webhooks = []webhook.Settings{
			settings(w.domain, "example.com/*"),
			settings(w.one, signerName),
			settings(w.domain, certificatesv1.KubeAPIServerClientSignerName),
		}
	})
	w.admin = apitest.Client(t, w.Admin(t))
	return w
}

func TestServer(t *testing.T) {
	w := start(t)
	t.Run("certificate", w.testCertificate)
	t.Run("what the endpoint is told", w.testRequest)
	t.Run("pending, then a certificate", w.testPending)
	t.Run("refused", w.testRefused)
	t.Run("wrong answer", w.testWrongAnswer)
	t.Run("down, then back", w.testDown)
	t.Run("all of a domain", w.testDomain)
	t.Run("built-in signer", w.testBuiltIn)
	t.Run("rights", w.testRights)
}

// approved creates and approves a request.
func (w world) approved(t *testing.T, name, signerName string) *csr {
	t.Helper()
	request := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(t))
	request.Spec.ExpirationSeconds = ptr.To(int32(3600))
	return apitest.Decide(t, w.admin, apitest.Create(t, w.admin, request), certificatesv1.CertificateApproved)
}

func (w world) waitFor(t *testing.T, name string, wanted func(*csr) bool) *csr {
	t.Helper()
	var got *csr
	apitest.Eventually(t, name+" is as wanted", func() bool {
		var err error
		if got, err = w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		return wanted(got)
	})
	return got
}

func condition(c *csr, kind certificatesv1.RequestConditionType) string {
	for _, cond := range c.Status.Conditions {
		if cond.Type == kind {
			return cond.Reason + ": " + cond.Message
		}
	}
	return ""
}

func has(kind certificatesv1.RequestConditionType) func(*csr) bool {
	return func(c *csr) bool { return condition(c, kind) != "" }
}

// wantEvent waits for a warning about a request and returns its note.
func (w world) wantEvent(t *testing.T, name, reason string) string {
	t.Helper()
	var note string
	apitest.Eventually(t, "there is an event "+reason+" about "+name, func() bool {
		list, err := w.admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == reason && e.ReportingController == "certplane.dev/csr-webhook-signer"
		})
		if i >= 0 {
			note = list.Items[i].Note
		}
		return i >= 0
	})
	return note
}

func (w world) testCertificate(t *testing.T) {
	certs, err := pki.ParseCertificates(apitest.Issued(t, w.admin, w.approved(t, "alice", signerName)))
	if err != nil {
		t.Fatal(err)
	}
	if len(certs) != 2 || certs[0].Subject.CommonName != "alice" || !certs[1].Equal(w.one.CA.Certificate()) {
		t.Errorf("%d certificates, the first of %s; want that of alice and the intermediate", len(certs), certs[0].Subject)
	}
	w.wantEvent(t, "alice", "Issued")
}

func (w world) testRequest(t *testing.T) {
	calls := w.one.Calls()
	got := calls[len(calls)-1]
	if got.Name != "alice" || got.UID == "" || got.SignerName != signerName || got.Requester.Username != "certplane:admin" ||
		!slices.Contains(got.Requester.Groups, "system:masters") || *got.ExpirationSeconds != 3600 || got.MaxExpirationSeconds != 3600 ||
		time.Until(got.Deadline) > time.Minute || !slices.Equal(got.Usages, []string{"digital signature", "client auth"}) {
		t.Errorf("the endpoint was told %+v", got)
	}
}

func (w world) testPending(t *testing.T) {
	w.one.Answers(func(rw http.ResponseWriter, r v1alpha1.SigningRequest) {
		webhooktest.Send(t, rw, r.Postponed(time.Second, "the officer has been told"))
	})
	c := w.approved(t, "patient", signerName)
	delayed := w.waitFor(t, c.Name, has("SigningDelayed"))
	if got := condition(delayed, "SigningDelayed"); got != "SignerPending: the officer has been told" {
		t.Errorf("condition is %q", got)
	}
	w.one.Answers(func(rw http.ResponseWriter, r v1alpha1.SigningRequest) {
		webhooktest.Send(t, rw, r.Issued(w.one.Issue(t, r)))
	})
	apitest.Issued(t, w.admin, c)
	if got := condition(w.waitFor(t, c.Name, func(*csr) bool { return true }), "SigningDelayed"); got != "" {
		t.Errorf("with a certificate there still is %q", got)
	}
}

func (w world) testRefused(t *testing.T) {
	w.one.Answers(func(rw http.ResponseWriter, r v1alpha1.SigningRequest) {
		webhooktest.Send(t, rw, r.Refused("NotInInventory", "no such host"))
	})
	failed := w.waitFor(t, w.approved(t, "refused", signerName).Name, has(certificatesv1.CertificateFailed))
	if got := condition(failed, certificatesv1.CertificateFailed); got != "NotInInventory: no such host" {
		t.Errorf("condition is %q", got)
	}
}

func (w world) testWrongAnswer(t *testing.T) {
	w.one.Answers(func(rw http.ResponseWriter, r v1alpha1.SigningRequest) {
		r.MaxExpirationSeconds *= 2
		webhooktest.Send(t, rw, r.Issued(w.one.Issue(t, r)))
	})
	delayed := w.waitFor(t, w.approved(t, "wronged", signerName).Name, has("SigningDelayed"))
	const plain = "the signer returned an invalid answer; it keeps trying"
	if got := condition(delayed, "SigningDelayed"); got != "SignerAnswerInvalid: "+plain {
		t.Errorf("condition is %q", got)
	}
	if note := w.wantEvent(t, "wronged", "SignerAnswerInvalid"); !strings.HasPrefix(note, plain) || !strings.Contains(note, "it is valid for 2h") {
		t.Errorf("the event says %q", note)
	}
	if len(delayed.Status.Certificate) > 0 {
		t.Error("the certificate reached the request")
	}
}

func (w world) testDown(t *testing.T) {
	w.one.Answers(func(rw http.ResponseWriter, r v1alpha1.SigningRequest) {
		webhooktest.Send(t, rw, r.Issued(w.one.Issue(t, r)))
	})
	w.one.Down()
	c := w.approved(t, "waiting", signerName)
	delayed := w.waitFor(t, c.Name, has("SigningDelayed"))
	if got := condition(delayed, "SigningDelayed"); got != "SignerUnavailable: the signer cannot sign at present; it keeps trying" {
		t.Errorf("condition is %q", got)
	}
	w.one.Up(t)
	apitest.Issued(t, w.admin, c)
}

func (w world) testDomain(t *testing.T) {
	before := len(w.one.Calls())
	certs, err := pki.ParseCertificates(apitest.Issued(t, w.admin, w.approved(t, "any", "example.com/any")))
	if err != nil || !certs[1].Equal(w.domain.CA.Certificate()) {
		t.Errorf("certificate of another endpoint, %v", err)
	}
	if len(w.one.Calls()) != before {
		t.Error("the endpoint of another signer was called")
	}
	for _, call := range w.domain.Calls() {
		if call.SignerName == signerName {
			t.Error("a signer's own endpoint does not go before that of its domain")
		}
	}
}

func (w world) testBuiltIn(t *testing.T) {
	certs, err := pki.ParseCertificates(apitest.Issued(t, w.admin, w.approved(t, "built-in", certificatesv1.KubeAPIServerClientSignerName)))
	if err != nil || len(certs) != 2 || !certs[1].Equal(w.domain.CA.Certificate()) {
		t.Errorf("certificate of the built-in signer, %v", err)
	}
}

func (w world) testRights(t *testing.T) {
	tests := []struct {
		verb, resource, name string
		want                 bool
	}{
		{"sign", "signers", signerName, true},
		{"sign", "signers", "example.com/*", true},
		{"sign", "signers", certificatesv1.KubeAPIServerClientSignerName, true},
		{"sign", "signers", certificatesv1.KubeletServingSignerName, false},
		{"sign", "signers", "example.org/*", false},
		{"approve", "signers", signerName, false},
		{"update", "certificatesigningrequests/approval", "x", false},
		{"update", "certificatesigningrequests/status", "x", true},
	}
	const account = "system:serviceaccount:kube-system:csr-webhook-signer"
	for _, tc := range tests {
		resource, subresource, _ := strings.Cut(tc.resource, "/")
		got := w.Allowed(t, account, nil, authorizationv1.ResourceAttributes{
			Verb: tc.verb, Group: certificatesv1.GroupName, Resource: resource, Subresource: subresource, Name: tc.name,
		})
		if got != tc.want {
			t.Errorf("the account may %s %s %q: %v, want %v", tc.verb, tc.resource, tc.name, got, tc.want)
		}
	}
}

// TestNoLongerDelegated: the right to sign goes with the configuration.
func TestNoLongerDelegated(t *testing.T) {
	w := start(t)
	w.Config.Signing.Webhooks = w.Config.Signing.Webhooks[:1]
	w.Restart(t)
	may := func(name string) bool {
		return w.Allowed(t, "system:serviceaccount:kube-system:csr-webhook-signer", nil,
			authorizationv1.ResourceAttributes{Verb: "sign", Group: certificatesv1.GroupName, Resource: "signers", Name: name})
	}
	apitest.Eventually(t, "the account may not sign for the built-in signer", func() bool {
		return may("example.com/*") && !may(certificatesv1.KubeAPIServerClientSignerName)
	})
	w.Config.Signing.Webhooks = nil
	w.Restart(t)
	apitest.Eventually(t, "the account may sign nothing", func() bool { return !may("example.com/*") })
}
