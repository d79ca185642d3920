package rfc2136

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
)

const (
	zone   = "example.com. 300 IN SOA ns.example.com. admin.example.com. 1 3600 600 86400 60"
	name   = "_acme-challenge.example.com."
	value  = "LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ"
	secret = "c2VjcmV0LW9mLXRoZS1ETlMtc2VydmVy"
)

var record = provider.Record{FQDN: name, Zone: "example.com.", Value: value, Domain: "example.com"}

// env has one Secret, "tsig", with these data.
func env(data map[string]string) provider.Env {
	return provider.Env{
		Now: time.Now,
		Secret: func(_ context.Context, name, key string) ([]byte, error) {
			if name != "tsig" {
				return nil, fmt.Errorf("secrets %q not found", name)
			}
			if _, ok := data[key]; !ok {
				return nil, &provider.KeyError{Secret: "ns/" + name, Key: key}
			}
			return []byte(data[key]), nil
		},
	}
}

func specFor(server *dnstest.Server, change func(*acmev1.ACMEIssuerDNS01ProviderRFC2136)) *acmev1.ACMEIssuerDNS01ProviderRFC2136 {
	spec := &acmev1.ACMEIssuerDNS01ProviderRFC2136{
		Nameserver: server.Addr, TSIGKeyName: "Key", TSIGAlgorithm: "hmacsha256",
		TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}, Key: "secret"},
	}
	if change != nil {
		change(spec)
	}
	return spec
}

func TestAlgorithmsAndProtocols(t *testing.T) {
	for name, wire := range map[string]string{
		"": dns.HmacMD5, "HMACMD5": dns.HmacMD5, "HMACSHA1": dns.HmacSHA1, "HMACSHA256": dns.HmacSHA256, "hmacsha512": dns.HmacSHA512,
	} {
		for _, protocol := range []acmev1.RFC2136UpdateProtocol{"", acmev1.RFC2136UpdateProtocolUDP, acmev1.RFC2136UpdateProtocolTCP} {
			t.Run(name+" "+string(protocol), func(t *testing.T) {
				server := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"key.": {Algorithm: wire, Secret: secret}}}, zone)
				writes(t, server, specFor(server, func(spec *acmev1.ACMEIssuerDNS01ProviderRFC2136) {
					spec.TSIGAlgorithm, spec.Protocol = name, protocol
				}))
			})
		}
	}
}

func TestUnsigned(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{}, zone)
	writes(t, server, &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: server.Addr})
	writes(t, server, specFor(server, func(spec *acmev1.ACMEIssuerDNS01ProviderRFC2136) { spec.TSIGKeyName = "" }))
	for _, update := range server.Updates() {
		if update.IsTsig() != nil {
			t.Error("an update is signed")
		}
	}
}

// writes presents two values, one of them twice, and removes them.
func writes(t *testing.T, server *dnstest.Server, spec *acmev1.ACMEIssuerDNS01ProviderRFC2136) {
	t.Helper()
	p, err := New(t.Context(), env(map[string]string{"secret": " " + secret + "\n"}), spec)
	if err != nil {
		t.Fatal(err)
	}
	other := record
	other.Value = "other"
	for i, step := range []struct {
		do   func(context.Context, provider.Record) error
		with provider.Record
		want []string
	}{
		{p.Present, record, []string{value}},
		{p.Present, record, []string{value}},
		{p.Present, other, []string{value, "other"}},
		{p.CleanUp, record, []string{"other"}},
		{p.CleanUp, record, []string{"other"}},
		{p.CleanUp, other, nil},
	} {
		if err := step.do(t.Context(), step.with); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if diff := cmp.Diff(step.want, server.TXT(name)); diff != "" {
			t.Fatalf("values after step %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestMessage: the update on the wire.
func TestMessage(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"key.": {Algorithm: dns.HmacSHA256, Secret: secret}}}, zone)
	p, err := New(t.Context(), env(map[string]string{"secret": secret}), specFor(server, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Present(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	update := server.Updates()[0]
	want := []string{name + "\t60\tIN\tTXT\t\"" + value + "\""}
	if diff := cmp.Diff(want, []string{update.Ns[0].String()}); diff != "" || len(update.Ns) != 1 || len(update.Answer) != 0 {
		t.Errorf("update (-want +got):\n%s%v", diff, update)
	}
	if update.Question[0].Name != "example.com." || update.Question[0].Qtype != dns.TypeSOA {
		t.Errorf("zone %v", update.Question[0])
	}
	if tsig := update.IsTsig(); tsig.Fudge != 300 || tsig.Hdr.Name != "key." {
		t.Errorf("signature %v", tsig)
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		reason string
		change func(*acmev1.ACMEIssuerDNS01ProviderRFC2136)
		data   map[string]string
		err    string
	}{
		{reason: "an unknown algorithm", change: func(s *acmev1.ACMEIssuerDNS01ProviderRFC2136) { s.TSIGAlgorithm = "HMACFOO" }, err: "algorithm 'HMACFOO' is not supported"},
		{reason: "no key of the Secret", change: func(s *acmev1.ACMEIssuerDNS01ProviderRFC2136) { s.TSIGSecret.Key = "" }, err: "key of data in Secret resource must be specified"},
		{reason: "a key that is missing", err: `data entry with key "secret" not found in secret`},
		{reason: "a Secret that is missing", change: func(s *acmev1.ACMEIssuerDNS01ProviderRFC2136) { s.TSIGSecret.Name = "none" }, err: `secrets "none" not found`},
		{reason: "not base64", data: map[string]string{"secret": "pass word!"}, err: "the TSIG key in secret tsig is not base64"},
	}
	for _, tc := range tests {
		_, err := New(t.Context(), env(tc.data), specFor(&dnstest.Server{}, tc.change))
		if err == nil || err.Error() != tc.err {
			t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
		}
	}
}

func TestFailures(t *testing.T) {
	wrong := base64.StdEncoding.EncodeToString([]byte("another secret"))
	tests := []struct {
		reason string
		key    string
		secret string
		zone   string
		fault  dnstest.Fault
		err    string
	}{
		{reason: "a wrong secret", secret: wrong, err: "DNS update failed: dns: bad authentication (the server replied NOTAUTH) (the server reports the TSIG error BADSIG)"},
		{reason: "an unknown key", key: "nobody", err: "DNS update failed: dns: bad authentication (the server replied NOTAUTH) (the server reports the TSIG error BADKEY)"},
		{reason: "another zone", zone: "test.", err: "DNS update failed: dns: bad authentication (the server replied NOTAUTH)"},
		{reason: "refused without a signature", fault: dnstest.Rcode(dns.RcodeRefused), err: "DNS update failed. Server replied: REFUSED"},
		{reason: "success without a signature", fault: dnstest.Rcode(dns.RcodeSuccess), err: "DNS update failed: the server's reply is not signed"},
		{reason: "garbage", fault: dnstest.Raw([]byte("x")), err: "DNS update failed: dns: short read"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			server := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"key.": {Algorithm: dns.HmacSHA256, Secret: secret}}}, zone)
			server.Break("update", dns.TypeNone, tc.fault)
			data := map[string]string{"secret": secret}
			if tc.secret != "" {
				data["secret"] = tc.secret
			}
			p, err := New(t.Context(), env(data), specFor(server, func(spec *acmev1.ACMEIssuerDNS01ProviderRFC2136) {
				if tc.key != "" {
					spec.TSIGKeyName = tc.key
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			with := record
			if tc.zone != "" {
				with.Zone, with.FQDN = tc.zone, "a."+tc.zone
			}
			if err := p.Present(t.Context(), with); err == nil || err.Error() != tc.err {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if got := server.TXT(name); got != nil {
				t.Errorf("values %q", got)
			}
		})
	}
}

// TestNoReply: an update does not last longer than its caller wants, and the
// error is the same each time.
func TestNoReply(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{}, zone)
	server.Break("update", dns.TypeNone, dnstest.Silent)
	for _, protocol := range []acmev1.RFC2136UpdateProtocol{acmev1.RFC2136UpdateProtocolUDP, acmev1.RFC2136UpdateProtocolTCP} {
		p, err := New(t.Context(), env(nil), &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: server.Addr, Protocol: protocol})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err = p.Present(ctx, record)
		cancel()
		want := fmt.Sprintf("DNS update failed: no reply from %s over %s in time", server.Addr, strings.ToLower(string(protocol)))
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestWithPort(t *testing.T) {
	for given, want := range map[string]string{
		"ns.test": "ns.test:53", "ns.test:5353": "ns.test:5353", "192.0.2.1": "192.0.2.1:53",
		"[2001:db8::1]": "[2001:db8::1]:53", "[2001:db8::1]:5353": "[2001:db8::1]:5353",
	} {
		if got := withPort(given); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// TestRotation: each provider has the key that the Secret has at that time.
func TestRotation(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"key.": {Algorithm: dns.HmacSHA256, Secret: secret}}}, zone)
	data := map[string]string{"secret": base64.StdEncoding.EncodeToString([]byte("old"))}
	present := func() error {
		p, err := New(t.Context(), env(data), specFor(server, nil))
		return errors.Join(err, p.Present(t.Context(), record))
	}
	if present() == nil {
		t.Error("the old key is accepted")
	}
	data["secret"] = secret
	if err := present(); err != nil {
		t.Error(err)
	}
}

// TestRefusedAddresses: an issuer cannot name a link-local address.
func TestRefusedAddresses(t *testing.T) {
	for _, protocol := range []acmev1.RFC2136UpdateProtocol{acmev1.RFC2136UpdateProtocolUDP, acmev1.RFC2136UpdateProtocolTCP} {
		p, err := New(t.Context(), env(nil), &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: "169.254.169.254", Protocol: protocol})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("DNS update failed: dial 169.254.169.254:53 over %s: 169.254.169.254 is a link-local or metadata address, which no issuer may use", strings.ToLower(string(protocol)))
		if err := p.Present(t.Context(), record); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
