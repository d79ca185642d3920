package acmeserver_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
)

// A controller in the same process obtains the certificate before the order is stored. If
// the order cannot be stored, the client tries again, and only the stored end is reported.
func TestIssuedAtOnce(t *testing.T) {
	w := newWorld(t)
	desk, fails, reports := &attempts.Desk{}, false, 0
	var lent []string
	w.serve("", func(cfg *acmeserver.Config) {
		cfg.Attempts, cfg.Sole = desk, true
		cfg.Lend = func(o client.Object) func() {
			lent = append(lent, o.GetName())
			return func() { lent = slices.DeleteFunc(lent, func(name string) bool { return name == o.GetName() }) }
		}
		inner, err := client.NewWithWatch(w.shared.Admin(t), client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Client = interceptor.NewClient(inner, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if fails {
					return errors.New("the store is away")
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		})
	})
	defer desk.Offer(func(_ *v1alpha1.AcmeOrder, at acmeorder.Position) *attempts.Attempt {
		a := attempts.NewAttempt()
		a.End(attempts.Outcome{
			Record: func(o *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus {
				return acmeorder.RecordAttempt(o, at, acmeorder.Attempt{}, &w.endpoint.Spec, time.Now())
			},
			Stored: func(*v1alpha1.AcmeOrder) {},
		})
		return a
	})()
	c := w.registered(1)
	issue := func(_ context.Context, o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, func()) {
		if !slices.Contains(lent, o.Name) {
			t.Error("the approver does not see the order")
		}
		return w.issued(o, time.Now()), func() { reports++ }
	}
	for _, tc := range []struct {
		name    string
		issue   attempts.Issue
		fails   bool
		first   string // empty for an error
		again   string
		reports int
	}{
		{"issued", issue, false, "valid", "valid", 1},
		{"not stored", issue, true, "", "valid", 1},
		{"not answered", func(context.Context, *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, func()) { return nil, nil }, false, "processing", "processing", 0},
		{"a controller elsewhere", nil, false, "processing", "processing", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t, reports = t, 0
			defer desk.OfferIssue(tc.issue)()
			name := fmt.Sprintf("n%d.corp.example", orderNumber.Add(1))
			url, order := c.order(name)
			challenges := c.post(order["authorizations"].([]any)[0].(string), nil).json(t)["challenges"].([]any)
			c.post(challenges[0].(map[string]any)["url"].(string), map[string]any{})
			payload := map[string]any{"csr": csr(t, apitest.NewKey(t), name)}
			fails = tc.fails
			r := c.post(url+"/finalize", payload)
			fails = false
			if tc.first == "" && r.code < 500 || tc.first != "" && r.json(t)["status"] != tc.first {
				t.Errorf("finalize: %d %s", r.code, r.body)
			}
			if r := c.post(url+"/finalize", payload); r.json(t)["status"] != tc.again {
				t.Errorf("again: %d %s", r.code, r.body)
			}
			if reports != tc.reports || len(lent) > 0 {
				t.Errorf("%d reports, lent: %q", reports, lent)
			}
		})
	}
}

// An order of a process without others is stored when it is made and when it ends, with its
// certificate. Its account is written once a day.
func TestWritesOfOrder(t *testing.T) {
	p := newProgram(t)
	p.AutoApprove()
	p.finalize(p.order("", "a"), "a")
	objects, err := client.NewWithWatch(p.Server.Admin(t), client.Options{Scheme: p.Objects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	events, err := objects.Watch(t.Context(), &v1alpha1.AcmeOrderList{}, client.InNamespace(p.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	before := p.accounts()
	url := p.order("", "b")
	p.finalize(url, "b")
	var states []v1alpha1.AcmeOrderState
	for e := range events.ResultChan() {
		o := e.Object.(*v1alpha1.AcmeOrder)
		if o.Name != lastPart(url) {
			continue // the first
		}
		if states = append(states, o.Status.State); o.Status.Ended != nil {
			break
		}
	}
	if want := []v1alpha1.AcmeOrderState{v1alpha1.AcmeOrderOpen, v1alpha1.AcmeOrderValid}; !slices.Equal(states, want) {
		t.Errorf("the order was stored as %q, not %q", states, want)
	}
	if after := p.accounts(); !slices.Equal(before, after) {
		t.Errorf("the account was written: %q, before %q", after, before)
	}
}

// A crash between the request and the end of an order leaves the order ready. The client's
// next attempt ends it with the same request.
func TestRequestIsThereAlready(t *testing.T) {
	p := newProgram(t)
	p.AutoApprove()
	url := p.order("", "a")
	text := csr(t, apitest.NewKey(t), p.Preauthorized("a"))
	o := p.stored(url)
	var err error
	if o.Status.CSR, err = base64.RawURLEncoding.DecodeString(text); err != nil {
		t.Fatal(err)
	}
	left, err := acmeorder.SigningRequest(o, p.Account, &p.Endpoint.Spec.Profiles[0], 12*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.asAccount(t).Create(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if r := p.client.post(url+"/finalize", map[string]any{"csr": text}); r.json(t)["status"] != "valid" {
		t.Errorf("finalize: %d %s", r.code, r.body)
	}
	if o = p.Ended(o); o.Status.Request == nil || o.Status.Request.UID != left.UID {
		t.Errorf("the order has the request %+v, not %s", o.Status.Request, left.UID)
	}
	all := &certificatesv1.CertificateSigningRequestList{}
	if err := p.Objects.List(t.Context(), all, client.MatchingLabels{v1alpha1.AcmeOrderLabel: o.Name}); err != nil || len(all.Items) != 1 {
		t.Errorf("%v, %d requests", err, len(all.Items))
	}
}

// accounts returns the versions of the accounts of the endpoint.
func (p *program) accounts() (versions []string) {
	p.Helper()
	list := &v1alpha1.AcmeAccountList{}
	if err := p.Objects.List(p.Context(), list, client.MatchingLabels{v1alpha1.AcmeEndpointLabel: p.Namespace}); err != nil {
		p.Fatal(err)
	}
	for _, a := range list.Items {
		versions = append(versions, a.Name+" "+a.ResourceVersion)
	}
	return versions
}

// asAccount returns a client that acts as the ServiceAccount.
func (p *program) asAccount(t *testing.T) client.Client {
	t.Helper()
	account := &corev1.ServiceAccount{}
	if err := p.Objects.Get(t.Context(), client.ObjectKey{Namespace: p.Namespace, Name: acmetest.ServiceAccount}, account); err != nil {
		t.Fatal(err)
	}
	who := request.ServiceAccount(p.Namespace, acmetest.ServiceAccount)
	cfg := rest.CopyConfig(p.Server.Admin(t))
	cfg.Impersonate = rest.ImpersonationConfig{UserName: who.Username, UID: string(account.UID), Groups: who.Groups}
	c, err := client.New(cfg, client.Options{Scheme: p.Objects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
