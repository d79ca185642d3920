package acmeorder_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func certificate(serial string) *v1alpha1.AcmeCertificate {
	return &v1alpha1.AcmeCertificate{Serial: serial, NotBefore: metav1.Time{Time: now}, NotAfter: metav1.Time{Time: now.Add(100 * time.Hour)}}
}

func TestRenewalWindow(t *testing.T) {
	e := endpointObject(func(e *v1alpha1.AcmeEndpoint) { e.Spec.Renewal.ExplanationURL = "https://corp.example/why" })
	starts := map[time.Time]bool{}
	for i := range 200 {
		c := certificate(fmt.Sprintf("%x", i))
		w := acmeorder.RenewalWindow(c, e, acmeorder.Causes{}, now)
		later := acmeorder.RenewalWindow(c, e, acmeorder.Causes{}, now.Add(70*time.Hour))
		switch {
		case w != later:
			t.Fatalf("the window moves: %v, %v", w, later)
		case w.Start.Before(now.Add(60*time.Hour)) || w.End.After(now.Add(80*time.Hour)) || !w.Start.Before(w.End):
			t.Fatalf("%v", w)
		case w.RetryIn < 288*time.Minute || w.RetryIn > 432*time.Minute || w.ExplanationURL != "":
			t.Fatalf("%v", w)
		}
		starts[w.Start] = true
	}
	if len(starts) < 150 {
		t.Errorf("200 certificates have %d windows", len(starts))
	}
	short := certificate("1")
	short.NotAfter = metav1.Time{Time: now.Add(10 * time.Second)}
	if w := acmeorder.RenewalWindow(short, e, acmeorder.Causes{}, now); !w.Start.Before(w.End) {
		t.Errorf("of ten seconds: %v", w)
	}
}

func TestRevokedWindow(t *testing.T) {
	c := certificate("1")
	c.Revoked = &v1alpha1.AcmeRevoked{}
	w := acmeorder.RenewalWindow(c, endpointObject(), acmeorder.Causes{}, now)
	if !w.Start.Equal(now.Add(-48*time.Hour)) || !w.End.Equal(now.Add(-24*time.Hour)) || w.RetryIn < time.Minute || w.RetryIn > time.Hour {
		t.Errorf("%v", w)
	}
}

func TestEarlyRenewal(t *testing.T) {
	by := now.Add(50 * time.Hour)
	since := now.Add(30 * time.Hour)
	annotated := endpointObject(func(e *v1alpha1.AcmeEndpoint) {
		e.Annotations = map[string]string{v1alpha1.AcmeRenewBeforeAnnotation: by.Format(time.RFC3339)}
		e.Spec.Renewal.ExplanationURL = "https://corp.example/why"
	})
	for reason, of := range map[string]struct {
		endpoint *v1alpha1.AcmeEndpoint
		causes   acmeorder.Causes
		from     time.Time
	}{
		"another CA":                 {endpointObject(), acmeorder.Causes{ReplacedBy: by}, now},
		"another CA, since a while":  {endpointObject(), acmeorder.Causes{ReplacedBy: by, Since: since}, since},
		"an annotation":              {annotated, acmeorder.Causes{}, now},
		"an annotation, and a CA":    {annotated, acmeorder.Causes{ReplacedBy: by.Add(10 * time.Hour), Since: since}, since},
		"an annotation in the past":  {annotated, acmeorder.Causes{Since: by.Add(time.Hour)}, by.Add(-2 * time.Second)},
		"a CA, after the usual time": {endpointObject(), acmeorder.Causes{ReplacedBy: now.Add(90 * time.Hour)}, time.Time{}},
	} {
		t.Run(reason, func(t *testing.T) {
			early := 0
			for i := range 100 {
				w := acmeorder.RenewalWindow(certificate(fmt.Sprintf("%x", i)), of.endpoint, of.causes, now)
				if of.from.IsZero() {
					if w.Start.Before(now.Add(60 * time.Hour)) {
						t.Fatalf("%v", w)
					}
					continue
				}
				if w.Start.Before(of.from) || w.End.After(by) || !w.Start.Before(w.End) {
					t.Fatalf("%v, from %v to %v", w, of.from, by)
				}
				if w.End.Before(of.from.Add(by.Sub(of.from) / 2)) {
					early++
				}
			}
			if whole := by.Sub(of.from); whole > time.Hour && !of.from.IsZero() && (early < 25 || early > 60) {
				t.Errorf("%d of 100 are in the first half", early)
			}
		})
	}
	malformed := endpointObject(func(e *v1alpha1.AcmeEndpoint) {
		e.Annotations = map[string]string{v1alpha1.AcmeRenewBeforeAnnotation: "tomorrow"}
	})
	if w := acmeorder.RenewalWindow(certificate("1"), malformed, acmeorder.Causes{}, now); w.Start.Before(now.Add(60 * time.Hour)) {
		t.Errorf("an annotation that is no time counts: %v", w)
	}
}

func TestReplaces(t *testing.T) {
	e := endpoint(t)
	old, _, _ := valid(t, e, dns("a.corp.example", "b.corp.example")...)
	id := old.Status.Certificate.CertID
	replacement := func(state string) *v1alpha1.AcmeOrder {
		o := newOrder(t, e, dns("a.corp.example")...)
		o.Name, o.Status.State = "order2", v1alpha1.AcmeOrderState(state)
		return o
	}
	taken := func(at time.Time) *v1alpha1.AcmeOrder { return changed(t, old, acmeorder.Replace(old, "order2", at)) }
	foreign := old.DeepCopy()
	foreign.Spec.Account = "bob"
	for _, tc := range []struct {
		reason   string
		replaces string
		old, by  *v1alpha1.AcmeOrder
		names    []string
		kind     string
		status   int
	}{
		{"ours", id, old, nil, []string{"b.corp.example", "c.corp.example"}, "", 0},
		{"malformed", "x", old, nil, []string{"a.corp.example"}, "malformed", 400},
		{"padding", id + "=", old, nil, []string{"a.corp.example"}, "malformed", 400},
		{"two dots", id + ".x", old, nil, []string{"a.corp.example"}, "malformed", 400},
		{"unknown", id, nil, nil, []string{"a.corp.example"}, "malformed", 404},
		{"another certificate", "AQIDBA.AJCs", old, nil, []string{"a.corp.example"}, "malformed", 404},
		{"of another account", id, foreign, nil, []string{"a.corp.example"}, "unauthorized", 403},
		{"no name in common", id, old, nil, []string{"c.corp.example"}, "malformed", 400},
		{"replaced", id, taken(now), replacement(""), []string{"a.corp.example"}, "alreadyReplaced", 409},
		{"replaced and renewed", id, taken(now), replacement("valid"), []string{"a.corp.example"}, "alreadyReplaced", 409},
		{"replaced by an order that is invalid", id, taken(now), replacement("invalid"), []string{"a.corp.example"}, "", 0},
		{"replaced by an order that is about to be made", id, taken(now.Add(-59 * time.Second)), nil, []string{"a.corp.example"}, "alreadyReplaced", 409},
		{"replaced by an order that is gone", id, taken(now.Add(-time.Minute)), nil, []string{"a.corp.example"}, "", 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, p := e.AdmitOrder(acmeorder.NewOrder{Identifiers: dns(tc.names...), Replaces: tc.replaces, Replaced: tc.old, Replacement: tc.by},
				acmeorder.OrderFacts{AccountFacts: facts(account(), nil)}, now)
			assertProblem(t, p, tc.kind, "")
			if p != nil && p.Status != tc.status {
				t.Errorf("status %d, want %d", p.Status, tc.status)
			}
		})
	}
}
