package acmeserver_test

import (
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/explain"
)

// nobody is a signer that nobody answers for: the tests do.
const nobody = "example.com/elsewhere"

// profiles adds profiles to an endpoint, whose first one is of a signer that certplane
// is.
func profiles(signers map[string]string) func(*v1alpha1.AcmeEndpoint, *v1alpha1.AcmeExternalKey) {
	return func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
		e.Spec.Approval.FinalizeWait.Duration = 0
		for name, signer := range signers {
			p := *e.Spec.Profiles[0].DeepCopy()
			p.Name, p.Signer = name, &v1alpha1.AcmeSigner{Name: signer}
			e.Spec.Profiles = append(e.Spec.Profiles, p)
		}
	}
}

// order makes an order of a profile for a preauthorized host, and returns its URL.
func (p *program) order(profile, host string) string {
	p.Helper()
	r := p.client.post(p.client.url("new-order"), map[string]any{"identifiers": identifiers(p.Preauthorized(host)), "profile": profile})
	if r.code != http.StatusCreated || r.json(p.client.t)["status"] != "ready" {
		p.Fatalf("new-order: %d %s", r.code, r.body)
	}
	return r.header.Get("Location")
}

// request returns the request of an order, once it is made.
func (p *program) request(url string) *certificatesv1.CertificateSigningRequest {
	p.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	apitest.Eventually(p, "the request is made", func() bool {
		return p.Objects.Get(p.Context(), client.ObjectKey{Name: "acme-" + lastPart(url)}, csr) == nil
	})
	return csr
}

// says adds a condition to a request.
func (p *program) says(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType, reason, message string) {
	p.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	sub := "approval"
	if kind != certificatesv1.CertificateApproved && kind != certificatesv1.CertificateDenied {
		sub = "status"
	}
	if err := p.Objects.SubResource(sub).Update(p.Context(), csr); err != nil {
		p.Fatal(err)
	}
}

// stored returns the order with a URL.
func (p *program) stored(url string) *v1alpha1.AcmeOrder {
	p.Helper()
	o := &v1alpha1.AcmeOrder{}
	if err := p.Objects.Get(p.Context(), client.ObjectKey{Namespace: p.Namespace, Name: lastPart(url)}, o); err != nil {
		p.Fatal(err)
	}
	return o
}

// failed is what signers and people say after an approval.
func failed(reason, message string) func(*program, string) {
	return func(p *program, url string) {
		csr := p.request(url)
		p.says(csr, certificatesv1.CertificateApproved, "Reviewed", "fine")
		p.says(csr, certificatesv1.CertificateFailed, reason, message)
	}
}

func denied(p *program, url string) {
	p.says(p.request(url), certificatesv1.CertificateDenied, "NotOurs", "ask the owner of the name")
}

// TestVerdicts: whatever is refused after finalize, the order becomes invalid; the
// client, the object, an Event and "explain" tell the same reason.
func TestVerdicts(t *testing.T) {
	p := newProgram(t, profiles(map[string]string{"nobody": nobody}))
	approved := func(p *program, url string) {
		p.says(p.request(url), certificatesv1.CertificateApproved, "Reviewed", "fine")
	}
	issued := p.order("server", "issued")
	p.finalize(issued, "issued")
	approved(p, issued)
	p.until(issued, "valid")
	for _, tc := range []struct {
		host, profile string
		then          func(*program, string)
		kind, detail  string
		status        float64
		event         string
	}{
		{"denied", "nobody", denied, "unauthorized", "denied: NotOurs: ask the owner of the name", 403, "Denied"},
		{"name", "nobody", failed("NameNotPermitted", "b is not permitted"), "rejectedIdentifier", "NameNotPermitted: b is not permitted", 400, "Refused"},
		{"csr", "nobody", failed("InvalidRequest", "the signature is wrong"), "badCSR", "the signature is wrong", 400, "Refused"},
		{"key", "nobody", failed("UnsupportedKeyType", "too short"), "badCSR", "too short", 400, "Refused"},
		{"profile", "nobody", failed("SignerValidationFailure", "too long"), "badCSR", "too long", 400, "Refused"},
		{"broken", "nobody", failed("SignerUnavailable", "no key"), "serverInternal", "no key", 500, "Refused"},
		{"rule", "nobody", failed("ForeignName", "not one of ours"), "badCSR", "ForeignName: not one of ours", 400, "Refused"},
		{"gone", "nobody", func(p *program, url string) {
			if err := p.Objects.Delete(t.Context(), p.request(url)); err != nil {
				t.Fatal(err)
			}
		}, "serverInternal", "the request was deleted or expired", 500, "Refused"},
		{"other", "nobody", func(p *program, url string) {
			approved(p, url)
			csr := p.request(url)
			csr.Status.Certificate = []byte(p.stored(issued).Status.Certificate.Chain)
			p.UpdateStatus(csr)
		}, "serverInternal", "does not match the order", 500, "IssuedSomethingElse"},
		{"late", "nobody", func(p *program, url string) {
			p.request(url)
			apitest.Eventually(t, "the order is old", func() bool { // its request may still be noted
				o := p.stored(url)
				o.Status.Finalized.Time, o.Status.Expires.Time = o.Status.Finalized.Add(-169*time.Hour), o.Status.Expires.Add(-169*time.Hour)
				return p.Objects.Status().Update(t.Context(), o) == nil
			})
		}, "unauthorized", "it was not approved within 7d", 403, "Invalid"},
	} {
		t.Run(tc.host, func(t *testing.T) {
			url := p.order(tc.profile, tc.host)
			p.finalize(url, tc.host)
			tc.then(p, url)
			shown := p.until(url, "invalid")
			problem, _ := shown["error"].(map[string]any)
			detail, _ := problem["detail"].(string)
			if problem["type"] != "urn:ietf:params:acme:error:"+tc.kind || problem["status"] != tc.status || !strings.Contains(detail, tc.detail) || shown["certificate"] != nil {
				t.Errorf("the client is told %v, want %s %v: %s", shown, tc.kind, tc.status, tc.detail)
			}
			p.told(t, url, detail, tc.event)
		})
	}
}

// finalize sends the certificate request of an order for a host. The answer is the
// order, whatever becomes of it.
func (p *program) finalize(url, host string) {
	p.Helper()
	template := &x509.CertificateRequest{DNSNames: []string{p.Preauthorized(host)}}
	key := apitest.NewKey(p)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		p.Fatal(err)
	}
	r := p.client.post(url+"/finalize", map[string]any{"csr": b64(der)})
	if r.code != http.StatusOK || r.header.Get("Location") != url {
		p.Fatalf("finalize: %d %s", r.code, r.body)
	}
}

// until waits until the order of a URL has a state for its client, and returns it.
func (p *program) until(url, state string) (shown map[string]any) {
	p.Helper()
	apitest.Eventually(p, "the order is "+state, func() bool {
		shown = p.client.post(url, nil).json(p.client.t)
		return shown["status"] == state
	})
	return shown
}

// told checks that an order that was refused says why, that "explain" says the same, and
// that there is an Event.
func (p *program) told(t *testing.T, url, detail, event string) {
	t.Helper()
	var o *v1alpha1.AcmeOrder
	apitest.Eventually(t, "the refusal is stored", func() bool { // what ends by the time alone is stored late
		o = p.stored(url)
		return o.Status.State == v1alpha1.AcmeOrderInvalid && o.Status.Error != nil
	})
	if !strings.HasPrefix(detail, o.Status.Error.Detail) || !slices.ContainsFunc(o.Status.Conditions, func(c metav1.Condition) bool { return c.Status == metav1.ConditionFalse }) {
		t.Errorf("the order has the problem %+v and the conditions %+v", o.Status.Error, o.Status.Conditions)
	}
	api, err := explain.Connect(p.Server.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	var e explain.ObjectExplanation
	apitest.Eventually(t, "the Event "+event, func() bool {
		if e, err = explain.ACMEOrder(t.Context(), api, explain.Query{Name: o.Name, Namespace: o.Namespace, Kubectl: []string{"kubectl"}, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(e.Events, func(e explain.Event) bool { return e.Reason == event })
	})
	if e.State != "invalid" || !strings.Contains(e.Verdict, detail) {
		t.Errorf("explain says %q, want %q", e.Verdict, detail)
	}
}
