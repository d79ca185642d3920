package explain_test

import (
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/challenge"
	"github.com/certplane/certplane/internal/policy/order"
)

// acmeIssuer returns an issuer with an account of a server, an HTTP-01 solver and
// a more specific one for DNS-01.
func acmeIssuer(name string, ca *acmetest.Server) *cmv1.Issuer {
	return newIssuer(name, cmv1.IssuerConfig{ACME: &acmev1.ACMEIssuer{
		Server: ca.Directory(), CABundle: ca.CABundle(),
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name + "-account"}},
		Solvers: []acmev1.ACMEChallengeSolver{
			{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}},
			{
				Selector: &acmev1.CertificateDNSNameSelector{DNSZones: []string{"dns.example.com"}},
				DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{
					Nameserver: "127.0.0.1:9", TSIGKeyName: "key", TSIGAlgorithm: "HMACSHA256",
					TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}, Key: "key"},
				}},
			},
		},
	}})
}

// The explanations of a Certificate, its request, its Order and its Challenges
// lead from one to the next, and say what the CA expects.
func TestACME(t *testing.T) {
	ca := acmetest.Start(t, acmetest.Options{})
	w := startIssuing(t)
	w.create(t, &corev1.Secret{ObjectMeta: named("tsig"), Data: map[string][]byte{"key": []byte("c2VjcmV0")}}, acmeIssuer("le", ca))
	w.create(t, &cmv1.Certificate{ObjectMeta: named("web"), Spec: cmv1.CertificateSpec{
		SecretName: "web-tls", DNSNames: []string{"web.example.com", "web.dns.example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "le"},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
	}})
	w.certificateBecomes(t, "web", "is not ready, and its certificate is under way: web-1 ")
	cr, text := w.becomes(t, "web-1", "is approved and waits: Waiting on certificate issuance from order default/web-1-")
	found := func(name string) string {
		for _, c := range cr.Checks {
			if c.Name == name {
				return c.Message
			}
		}
		return ""
	}
	apitest.Eventually(t, "the request names the slowest Challenge", func() bool {
		cr, text = w.explain(t, "web-1")
		return strings.Contains(found("challenge"), ", DNS-01 for web.dns.example.com, is not valid yet: ") && len(cr.Next) > 1
	})
	orderName := strings.Fields(found("order"))[1]
	orderName = strings.TrimSuffix(orderName, ":")
	slowest := strings.Fields(found("challenge"))[1]
	slowest = strings.TrimSuffix(slowest, ",")
	says(t, text, "certplane explain order -n default "+orderName+" --context c", "certplane explain challenge -n default "+slowest+" --context c")

	_, text = ask[explain.CertificateExplanation](t, verb.IssuedCertificate, w.Admin(t), "web", time.Now())
	says(t, text, "Challenge "+slowest, "certplane explain challenge -n default "+slowest+" --context c")

	var o explain.OrderExplanation
	apitest.Eventually(t, "the Order waits for both names", func() bool {
		o, text = ask[explain.OrderExplanation](t, verb.Order, w.Admin(t), orderName, time.Now())
		return o.Decision != nil && o.Decision.Class == order.WaitsChallenges && len(o.Names) == 2 && o.Slowest != ""
	})
	says(t, text, orderName+" waits for the CA to validate a name: Challenge ", "CertificateRequest web-1", "validated names: 0 of 2",
		"spec.acme.solvers[0] (http-01) is used", "spec.acme.solvers[1] (dns-01): the name is in none of selector.dnsZones",
		"spec.acme.solvers[1] (dns-01) is used", "spec.acme.solvers[0] (http-01): the selector of spec.acme.solvers[1] is more specific",
		"certplane explain certificaterequest -n default web-1 --context c")

	for _, n := range o.Names {
		ch, text := ask[explain.ChallengeExplanation](t, verb.Challenge, w.Admin(t), n.Challenge, time.Now())
		if ch.Challenge.Order != orderName || ch.Challenge.Domain != n.Domain || ch.Decision.Step != challenge.Present {
			t.Errorf("%+v", ch)
		}
		says(t, text, "certplane explain order -n default "+orderName+" --context c")
		switch n.Type {
		case acmev1.ACMEChallengeTypeHTTP01:
			url := "http://web.example.com/.well-known/acme-challenge/"
			if !strings.HasPrefix(ch.Expected.URL, url) || !strings.HasPrefix(ch.Expected.Value, strings.TrimPrefix(ch.Expected.URL, url)+".") {
				t.Errorf("%+v", ch.Expected)
			}
			says(t, text, "curl --silent --show-error --location --include "+url, "dig +short AAAA web.example.com", "acme.http01.listen")
		case acmev1.ACMEChallengeTypeDNS01:
			if ch.Expected.Record != "_acme-challenge.web.dns.example.com." || len(ch.Expected.Value) != 43 {
				t.Errorf("%+v", ch.Expected)
			}
			says(t, text, "dig +short TXT _acme-challenge.web.dns.example.com.", "the solver's Secret tsig exists",
				"certplane kubectl --context c describe secret -n default tsig")
		}
	}

	rule := apitest.Allow("get", "orders")
	rule.APIGroups = []string{"acme.cert-manager.io"}
	w.Grant(t, "ann", rule)
	o, text = ask[explain.OrderExplanation](t, verb.Order, w.As(t, "ann"), orderName, time.Now())
	if o.Decision != nil {
		t.Errorf("%+v", o.Decision)
	}
	says(t, text, orderName+" is not complete: ", "you may not list challenges.acme.cert-manager.io", "you may not get issuers")
}
