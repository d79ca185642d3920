package acme

import (
	"encoding/base64"
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/run/server"
)

// Certificates are issued by way of DNS records that are written by dynamic
// updates with a signature.
func TestDynamicUpdates(t *testing.T) {
	const soa = " 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60"
	secret := base64.StdEncoding.EncodeToString([]byte("a secret of 32 bytes for updates"))
	names := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"updates.": {Algorithm: dns.HmacSHA256, Secret: secret}}},
		"example.com."+soa, "other.test."+soa, "_acme-challenge.a.example.com. 300 IN CNAME a.other.test.")
	w := newWorld(t, pebbleOptions{resolver: names.Addr}, func(cfg *server.Config) {
		cfg.ACME.DNS01.RecursiveNameservers = []string{names.Addr}
		cfg.ACME.DNS01.RecursiveNameserversOnly = true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
	})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tsig"}, StringData: map[string]string{"key": secret}})
	updates := acmev1.ACMEIssuerDNS01ProviderRFC2136{
		Nameserver: names.Addr, TSIGAlgorithm: "HMACSHA256", TSIGKeyName: "updates",
		TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}, Key: "key"},
	}
	w.issuer("direct", acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &updates}})
	w.issuer("follow", acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &updates, CNAMEStrategy: acmev1.FollowStrategy}})
	for _, test := range []struct{ name, issuer, names, record, reason string }{
		{"wildcard", "direct", "example.com *.example.com", "_acme-challenge.example.com.", "two values of one name, one after the other"},
		{"alias", "follow", "a.example.com", "a.other.test.", "the record is where the CNAME leads"},
	} {
		before := len(names.Updates())
		leaf := w.certificate(test.name, test.issuer, func(s *cmv1.CertificateSpec) { s.DNSNames = strings.Fields(test.names) })
		if got := strings.Join(leaf.DNSNames, " "); len(leaf.DNSNames) != len(strings.Fields(test.names)) {
			t.Errorf("%s: names %s (%s)", test.name, got, test.reason)
		}
		w.leftovers()
		made := names.Updates()[before:]
		if len(made) < 2*len(leaf.DNSNames) {
			t.Errorf("%s: %d updates (%s)", test.name, len(made), test.reason)
		}
		for _, update := range made {
			if name := update.Ns[0].Header().Name; name != test.record {
				t.Errorf("%s: a record of %s, not of %s (%s)", test.name, name, test.record, test.reason)
			}
		}
		if left := names.TXT(test.record); len(left) > 0 {
			t.Errorf("%s: records are left: %q", test.name, left)
		}
	}
}
