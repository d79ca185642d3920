package explain

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// variants returns the combinations of results that the checks of a request can
// have.
func variants() iter.Seq[[]Check] {
	table := []struct {
		name    string
		results []Result
	}{
		{"reference", []Result{Yes, No, Unknown}}, {"profile", []Result{Yes, No, Unknown}}, {"request", []Result{Yes, No}},
		{"issuer", []Result{Yes, No, Unknown}}, {"key", []Result{Yes, No}}, {"of a later version", []Result{Yes, No}},
		{"kubelet", []Result{Yes, No}}, {"permission", []Result{Yes, No, Unknown, Open}}, {"approval", []Result{Open, Yes, No}},
		{"signer", []Result{Yes, No, Unknown}}, {"signing", []Result{Open, No}},
	}
	return func(yield func([]Check) bool) {
		var choose func(chosen []Check) bool
		choose = func(chosen []Check) bool {
			if len(chosen) == len(table) {
				return yield(chosen)
			}
			next := table[len(chosen)]
			for _, result := range next.results {
				c := Check{next.name, result, fmt.Sprintf("[%s %s]", next.name, result)}
				if !choose(append(chosen[:len(chosen):len(chosen)], c)) {
					return false
				}
			}
			return true
		}
		choose(nil)
	}
}

var someWords = words{state: "is approved", signer: "signer", waits: " and waits: ", lacking: "its requester", silent: "its signer"}

// contradiction returns what a headline must not say with these checks, or
// fails to say.
func contradiction(headline string, o outlook, signed bool) string {
	failed := func(name string) bool { return o.find(name).Result == No }
	says := func(part string) bool { return strings.Contains(headline, part) }
	stopped, named := false, false
	for _, c := range o.checks {
		if c.Result == No && !slices.Contains([]string{"kubelet", "permission", "approver", "approval", "claim", "signer", "signing"}, c.Name) {
			stopped = true
			named = named || says(c.Message)
		}
	}
	permission := o.find("permission").Result
	for _, promise := range []string{"about to", "will be", "soon", "at once"} {
		if says(promise) {
			return "it promises what others do"
		}
	}
	switch {
	case stopped && !named && (signed || !failed("approval")):
		return "it names no failed check"
	case !stopped && (says("refuse it") || o.delay == "" && says("cannot sign")):
		return "it names an obstacle that there is not"
	case signed && !stopped && o.delay == "" && failed("signer") && !says(o.find("signer").Message):
		return "it does not say that no account may sign"
	case signed && says("waits to be signed") && (stopped || failed("signer") || failed("signing") || o.delay != "" || o.waited >= 10*time.Second):
		return "nothing is left to wait for, or it has waited for too long"
	case signed && says("has not answered") && o.waited < 10*time.Second:
		return "there was no time to answer"
	case !signed && says("no person") && (stopped || permission != Yes || o.waited >= 10*time.Second):
		return "it takes a person, or no controller has acted"
	case !signed && says("without a person") && (stopped || permission != Yes || o.waited < 10*time.Second):
		return "it takes a person, or there was no time"
	case !signed && says("a person to approve") && permission == Yes:
		return "it takes no person"
	case !signed && failed("approval") != says("cannot be approved"):
		return "it differs from the check of the approval"
	case !signed && !stopped && !failed("approval") && failed("signer") && !says(o.find("signer").Message):
		return "it does not say that no account may sign"
	}
	return ""
}

// results returns the results of checks by name.
func results(checks []Check) map[string]Result {
	all := map[string]Result{}
	for _, c := range checks {
		all[c.Name] = c.Result
	}
	return all
}

// No headline contradicts a check, whichever checks fail together.
func TestHeadlines(t *testing.T) {
	wrong := 0
	for checks := range variants() {
		for _, waited := range []time.Duration{0, 10*time.Second - 1, 10 * time.Second} {
			o := outlook{checks: checks, waited: waited, words: someWords}
			told := o
			told.delay = "[told]"
			for _, tc := range []struct {
				o        outlook
				signed   bool
				headline string
			}{{o, false, o.undecided()}, {o, true, o.unsigned()}, {told, true, told.unsigned()}} {
				if why := contradiction(tc.headline, tc.o, tc.signed); why != "" {
					t.Errorf("%q with %v after %s: %s", tc.headline, results(checks), waited, why)
					if wrong++; wrong > 10 {
						t.FailNow()
					}
				}
			}
		}
	}
}

// The same holds for the headlines of requests, whatever is known about them.
func TestHeadlinesOfRequests(t *testing.T) {
	declare := func(ready metav1.ConditionStatus) func(*facts) {
		return func(f *facts) {
			f.csr.Spec.SignerName = "example.com/x"
			f.declared = &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.SignerSpec{SignerName: "example.com/x"}}
			f.declared.Status.Conditions = []metav1.Condition{{Type: v1alpha1.Ready, Status: ready, Message: "it says so"}}
		}
	}
	name := func(signerName string) func(*facts) { return func(f *facts) { f.csr.Spec.SignerName = signerName } }
	approved := func(ago time.Duration, more ...condition) func(*facts) {
		c := condition{Type: "Approved", Status: "True", LastUpdateTime: metav1.NewTime(now.Add(-ago))}
		return conditions(append([]condition{c}, more...)...)
	}
	of := [][]func(*facts){
		{func(*facts) {}, name("example.com/x"), name("issuers.cert-manager.io/x"), declare("True"), declare("False"), func(f *facts) { f.csr.Spec.Usages = nil }},
		{func(*facts) {}, func(f *facts) { f.signers = nil }, func(f *facts) { f.signers, f.signersUnknown = nil, true }},
		{func(*facts) {}, func(f *facts) { f.permitted = []Result{No} }, func(f *facts) { f.permitted = []Result{Unknown} }},
		{func(*facts) {}, func(f *facts) { f.mayApprove = No }, func(f *facts) { f.declarersUnknown = true }},
		{
			func(*facts) {}, func(f *facts) { f.csr.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Second)) },
			approved(0), approved(10 * time.Second), approved(0, condition{Type: "SigningDelayed", Status: "True", Message: "not now"}),
		},
	}
	var choose func(chosen []func(*facts))
	choose = func(chosen []func(*facts)) {
		if len(chosen) < len(of) {
			for _, change := range of[len(chosen)] {
				choose(append(chosen[:len(chosen):len(chosen)], change))
			}
			return
		}
		f := newFacts(t)
		for _, change := range chosen {
			change(f)
		}
		e := f.complete().explain()
		p := f.progress()
		o := outlook{f.checks(p), f.Now.Sub(p.since), p.delay, f.words()}
		if why := contradiction(e.Verdict, o, p.state == certificates.Approved); why != "" {
			t.Errorf("%q with %v: %s", e.Verdict, results(e.Checks), why)
		}
	}
	choose(nil)
}

// A headline calls a Certificate ready only while no check contradicts it, and
// calls it issued only after it is written.
func TestHeadlinesOfCertificates(t *testing.T) {
	for _, ready := range []cmmeta.ConditionStatus{"True", "False"} {
		for _, issuing := range []cmmeta.ConditionStatus{"True", "False"} {
			for _, secret := range []Result{Yes, No, Unknown} {
				for _, conflicting := range []bool{false, true} {
					for _, end := range []time.Duration{time.Hour, -time.Hour} {
						f := certificateWith(ready, issuing, secret, conflicting, now.Add(end))
						e := f.Explain()
						r, isReady := results(e.Checks), strings.Contains(e.Verdict, "is ready")
						switch {
						case isReady && (r["ready"] != Yes || r["secret"] == No || r["secretName"] == No || end < 0):
							t.Errorf("%q with %v", e.Verdict, r)
						case !isReady && ready == "True" && secret != No && !conflicting && end > 0:
							t.Errorf("%q with %v", e.Verdict, r)
						case conflicting != strings.Contains(e.Verdict, "gets no certificate"):
							t.Errorf("%q with %v", e.Verdict, r)
						}
					}
				}
			}
		}
	}
}

func certificateWith(ready, issuing cmmeta.ConditionStatus, secret Result, conflicting bool, end time.Time) *CertificateFacts {
	until := metav1.NewTime(end)
	crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: cmv1.CertificateSpec{SecretName: "web-tls"}}
	crt.Status.NotAfter = &until
	crt.Status.Conditions = []cmv1.CertificateCondition{
		{Type: cmv1.CertificateConditionReady, Status: ready, Message: "[ready]"}, {Type: cmv1.CertificateConditionIssuing, Status: issuing, Message: "[issuing]"},
	}
	f := &CertificateFacts{
		Query: Query{Now: now}, Situation: issuance.Situation{Certificate: crt}, SecretExists: secret,
		Issuer: &IssuerFacts{resource: certmanager.Resource{Name: "issuers", Namespaced: true}, namespace: "default", Exists: Yes},
	}
	if secret == Yes {
		f.Secret = &corev1.Secret{}
	}
	if conflicting {
		f.others = []string{"other"}
		f.Owner = &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	}
	return f
}
