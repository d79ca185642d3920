package acmeserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
)

// TestWithdrawn: what an order rests on is withdrawn when it is ready, or when its
// request waits for its approval. It gets no certificate, although its ServiceAccount
// needs no person afterwards.
func TestWithdrawn(t *testing.T) {
	control := newProgram(t, profiles(nil)) // nothing is withdrawn
	waits := control.order("server", "waits")
	control.finalize(waits, "waits")
	control.request(waits)
	gone := newProgram(t, profiles(nil))
	w := withdrawn{gone, "ServiceAccount", gone.order("server", "waits"), gone.order("server", "ready")}
	gone.finalize(w.waits, "waits")
	gone.request(w.waits)
	if err := gone.Objects.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: acmetest.ServiceAccount}}); err != nil {
		t.Fatal(err)
	}
	gone.AutoApprove()
	gone.finalize(w.ready, "ready") // what the server knows of ServiceAccounts is some seconds old
	gone.until(w.ready, "invalid")
	all := []withdrawn{w}
	for _, tc := range []struct {
		reason   string
		withdraw func(*program)
		code     int
		problem  string
		state    string // that of the order that was ready; empty if its client is refused
	}{
		{"account", func(p *program) {
			a := &v1alpha1.AcmeAccount{ObjectMeta: metav1.ObjectMeta{Name: lastPart(p.client.kid)}}
			p.Change(a, func() { a.Spec.Decision = v1alpha1.AcmeDecisionRevoked })
		}, 403, "unauthorized", ""},
		{"external key", func(p *program) { p.Change(p.Key, func() { p.Key.Spec.Revoked = true }) }, 403, "unauthorized", ""},
		{"profile", func(p *program) { p.Change(p.Endpoint, func() { p.Endpoint.Spec.Profiles[0].Name = "other" }) }, 400, "invalidProfile", "invalid"},
		{"name of the endpoint", func(p *program) {
			p.Change(p.Endpoint, func() { p.Endpoint.Spec.Identifiers.DNS.Deny = []string{"*.pre." + p.Namespace + ".example"} })
		}, 400, "rejectedIdentifier", "invalid"},
		{"name of the external key", func(p *program) { p.Change(p.Key, func() { p.Key.Spec.Preauthorized = nil }) }, 403, "unauthorized", "invalid"},
	} {
		p := newProgram(t, profiles(nil))
		t.Run(tc.reason, func(t *testing.T) {
			w := withdrawn{p, tc.reason, p.order("server", "waits"), p.order("server", "ready")}
			p.finalize(w.waits, "waits")
			p.request(w.waits)
			tc.withdraw(p)
			all = append(all, w)
			var r *response
			apitest.Eventually(t, "the server knows", func() bool { // by an order that is refused, or not ready
				r = p.client.post(p.client.url("new-order"), map[string]any{"identifiers": identifiers(p.Preauthorized("next")), "profile": "server"})
				return r.code != 201 || r.json(t)["status"] != "ready"
			})
			expect(t, "finalize", p.client.post(w.ready+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), p.Preauthorized("ready"))}), tc.code, tc.problem)
			if shown := p.client.post(w.ready, nil); tc.state != "" && shown.json(t)["status"] != tc.state {
				t.Errorf("the order is %s", shown.body)
			}
			p.AutoApprove()
		})
	}
	var r *response
	apitest.Eventually(t, "the server knows that the ServiceAccount is gone", func() bool {
		r = gone.client.post(gone.client.kid, nil)
		return r.code != 200
	})
	expect(t, "an account whose ServiceAccount is gone", r, 403, "unauthorized")
	control.AutoApprove()
	control.until(waits, "valid") // as the others would be by now
	for _, w := range all {
		for _, url := range []string{w.waits, w.ready} {
			if o := w.stored(url); o.Status.Certificate != nil || o.Status.State == v1alpha1.AcmeOrderValid {
				t.Errorf("after the %s was withdrawn, the order is %+v", w.reason, o.Status)
			}
		}
		if csr := w.request(w.waits); len(csr.Status.Conditions) > 0 || len(csr.Status.Certificate) > 0 {
			t.Errorf("after the %s was withdrawn, the request is %+v", w.reason, csr.Status)
		}
	}
}

// withdrawn are the orders of a program that were placed before something was withdrawn.
type withdrawn struct {
	*program
	reason       string
	waits, ready string
}
