package certpolicy_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// issued returns a certificate as a signer has issued it.
func issued(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"www.shop.example.com"}, NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	key := keyOf(pki.ECDSAP256)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestCertificates: a finished certificate is judged by what it has, whatever
// was asked for.
func TestCertificates(t *testing.T) {
	policies := map[string]string{"p": `
effect: Allow
match: {signers: ["*"]}
certificate:
  subject: {commonName: {inNames: true}}
  names: {dns: {zones: [shop.example.com]}, ip: {cidrs: [10.0.0.0/8]}, other: [{oid: 1.3.6.1.4.1.311.20.2.3, patterns: ["*@corp"]}]}
  keys: {types: [ECDSAP256]}
  usages: {allowed: [digital signature, server auth], required: [server auth]}
  lifetime: {min: 1h, max: 24h}
`}
	s := set(t, policies)
	for _, tc := range []struct {
		reason string
		change func(*x509.Certificate)
		want   string
	}{
		{"as asked for", nil, "Approve"},
		{"another name", func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "www.example.org") }, "Deny; p certificate.names.dns NameNotPermitted dnsNames[1]=www.example.org"},
		{"an address", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("192.0.2.1")} }, "Deny; p certificate.names.ip NameNotPermitted ipAddresses[1]=192.0.2.1"},
		{"an other name", func(c *x509.Certificate) {
			c.ExtraExtensions = extensionsOf(t, pki.Content{Names: pki.AltNames{DNSNames: c.DNSNames, OtherNames: []pki.OtherName{{Type: oidUPN, Value: "ann@other"}}}})
		}, "Deny; p certificate.names.other[1.3.6.1.4.1.311.20.2.3] NameNotPermitted otherNames[1.3.6.1.4.1.311.20.2.3][0]=ann@other"},
		{"a subject", func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "x", Organization: []string{"y"}} },
			"Deny; p certificate.subject.commonName.inNames SubjectNotPermitted subject.commonName=x; p certificate.subject.organizations SubjectNotPermitted subject.organizations=y"},
		{"more usages", func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) }, "Deny; p certificate.usages.allowed UsageNotPermitted usages[2]=client auth"},
		{"a usage without a name", func(c *x509.Certificate) { c.UnknownExtKeyUsage = append(c.UnknownExtKeyUsage, oidStrange) }, "Deny; p certificate.usages.allowed UsageNotPermitted usages[2]=1.2.3"},
		{"fewer usages", func(c *x509.Certificate) { c.ExtKeyUsage = nil }, "Deny; p certificate.usages.required UsageRequired usages"},
		{"a CA", func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, "Deny; p certificate.authority.allowed CertificateAuthorityNotPermitted isCA=true"},
		{"a CA by its usage", func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign },
			"Deny; p certificate.authority.allowed CertificateAuthorityNotPermitted isCA=true; p certificate.usages.allowed UsageNotPermitted usages[1]=cert sign"},
		{"a longer time", func(c *x509.Certificate) { c.NotAfter = now.Add(24*time.Hour + time.Second) }, "Deny; p certificate.lifetime.max LifetimeTooLong duration=1d1s"},
		{"a longer time, of which a part is over", func(c *x509.Certificate) { c.NotBefore = now.Add(-time.Hour) }, "Approve"},
		{"a longer time that begins later", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = now.Add(time.Hour), now.Add(25*time.Hour+time.Second)
		}, "Deny; p certificate.lifetime.max LifetimeTooLong duration=1d1s"},
		{"a shorter time", func(c *x509.Certificate) { c.NotAfter = now.Add(50 * time.Minute) }, "Deny; p certificate.lifetime.min LifetimeTooShort duration=55m"},
	} {
		for _, prospective := range []bool{false, true} {
			in := of(csrs).but(func(a *asked) { a.stage = v1alpha1.StageSign }).input(t)
			if prospective {
				in.Prospective = issued(t, tc.change)
			} else {
				in.Certificate = issued(t, tc.change)
			}
			if got := brief(s.Decide(in)); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
			}
		}
	}
	// The certificate counts, and not the request, but that must be readable.
	asked := of(csrs).but(func(a *asked) { a.dns = []string{"www.example.org"}; a.certificate = issued(t, nil) })
	if got := brief(decide(t, s, asked)); got != "Approve" {
		t.Errorf("a certificate with other names than asked for: %s", got)
	}
	asked.pem = func(data []byte) []byte { return append(data, data...) }
	if got := decide(t, s, asked); got.Reason != certpolicy.ReasonUnreadable {
		t.Errorf("a certificate for a request that cannot be read: %s", brief(got))
	}
}

// TestUnreadableCertificate: a certificate that shows less than it has is not
// judged.
func TestUnreadableCertificate(t *testing.T) {
	s := set(t, map[string]string{"everything": everything})
	for reason, extension := range map[string]pkix.Extension{
		"a directoryName":               {Id: pki.OIDSubjectAltName, Value: san(ordinary, tlv(0xa4, tlv(0x30)...))},
		"a key usage that is unknown":   {Id: pki.OIDKeyUsage, Value: []byte{3, 3, 6, 0x80, 0x40}},
		"name constraints with numbers": {Id: pki.OIDNameConstraints, Value: tlv(0x30, tlv(0xa0, tlv(0x30, join(dnsName("a.example"), tlv(0x80, 1))...)...)...)},
	} {
		cert := issued(t, nil)
		cert.Extensions = append(slices.DeleteFunc(slices.Clone(cert.Extensions), func(e pkix.Extension) bool { return e.Id.Equal(extension.Id) }), extension)
		d := decide(t, s, of(csrs).but(func(a *asked) { a.certificate = cert }))
		if d.Reason != certpolicy.ReasonUnreadable || !strings.Contains(d.Message, "the certificate cannot be judged: ") && !strings.Contains(d.Message, "name constraints") {
			t.Errorf("%s: %s: %s", reason, brief(d), d.Message)
		}
	}
}

// TestBareKey: a pod's request that has only a key asks for nothing else.
func TestBareKey(t *testing.T) {
	s := set(t, map[string]string{"p": `{effect: Allow, match: {signers: ["*"]}, certificate: {subject: {empty: true}, keys: {types: [ECDSAP256]}, usages: {allowed: [server auth]}, lifetime: {max: 24h}}}`})
	bare := func(a *asked) { a.bare = true }
	if got := brief(decide(t, s, of(pcrs).but(bare))); got != "Approve" {
		t.Error(got)
	}
	if got := brief(decide(t, s, of(pcrs).but(bare, func(a *asked) { a.key = pki.Ed25519 }))); got != "Deny; p certificate.keys UnsupportedKeyType key=Ed25519" {
		t.Error(got)
	}
}

// TestRequestedLifetimes: who keeps to max, and who says it.
func TestRequestedLifetimes(t *testing.T) {
	const refuse, shorten = `{max: 48h}`, `{max: 48h, exceeding: Shorten}`
	none := func(a *asked) { a.noLife = true }
	long := func(a *asked) { a.duration = 49 * time.Hour }
	foreign := func(a *asked) { a.foreign = true }
	issuer := func(duration string) func(*asked) {
		return func(a *asked) {
			a.signer = "clusterissuers.cert-manager.io/internal"
			a.annotations = map[string]string{"experimental.cert-manager.io/request-duration": duration}
		}
	}
	for _, tc := range []struct {
		reason, lifetime string
		ask              []func(*asked)
		want             string
	}{
		{"none named, ours", refuse, fns(none), ""},
		{"none named, another's", refuse, fns(none, foreign), "LifetimeTooLong"},
		{"none named, another's, and a minimum", `{min: 1h}`, fns(none, foreign), ""},
		{"the largest", refuse, fns(func(a *asked) { a.duration = 48 * time.Hour }), ""},
		{"more", refuse, fns(long), "LifetimeTooLong"},
		{"more, to be shortened", shorten, fns(long), ""},
		{"more, to be shortened by another", shorten, fns(long, foreign), "LifetimeTooLong"},
		{"none, to be shortened by another", shorten, fns(none, foreign), "LifetimeTooLong"},
		{"an annotation", refuse, fns(issuer("49h")), "LifetimeTooLong"},
		{"an annotation, shorter than the field", refuse, fns(long, issuer("47h")), ""},
		{"an annotation that cannot be read", refuse, fns(issuer("2 days")), "InvalidRequest"},
		{"an annotation of a request for no issuer", refuse, fns(func(a *asked) {
			a.annotations = map[string]string{"experimental.cert-manager.io/request-duration": "49h"}
		}), ""},
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {lifetime: ` + tc.lifetime + `}}`, "everything": everything})
		d := decide(t, s, of(csrs).but(tc.ask...))
		if d.Reason != tc.want || (d.Outcome == v1alpha1.OutcomeApprove) != (tc.want == "") {
			t.Errorf("%s: %s", tc.reason, brief(d))
		}
	}
	finished := of(csrs).but(func(a *asked) {
		a.certificate = issued(t, func(c *x509.Certificate) { c.NotAfter = now.Add(49 * time.Hour) })
	})
	s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {lifetime: ` + shorten + `}}`, "everything": everything})
	if d := decide(t, s, finished); d.Reason != certpolicy.ReasonTooLong {
		t.Errorf("a certificate that is not shortened: %s", brief(d))
	}
}

// TestUsages: the usages of the object and of the PKCS#10 request count, by one
// name each.
func TestUsages(t *testing.T) {
	usages := func(list ...string) func(*asked) { return func(a *asked) { a.usages = list } }
	inside := func(key x509.KeyUsage, extended ...x509.ExtKeyUsage) func(*asked) {
		return func(a *asked) { a.inside = &pki.Usages{Key: key, Extended: extended} }
	}
	purposes := func(ids ...[]int) func(*asked) {
		return func(a *asked) {
			var value []byte
			for _, id := range ids {
				value = append(value, marshal(t, asn1.ObjectIdentifier(id))...)
			}
			a.extensions = []pkix.Extension{{Id: pki.OIDExtKeyUsage, Value: tlv(0x30, value...)}}
		}
	}
	for _, tc := range []struct {
		reason, usages string
		kind           v1alpha1.RequestKind
		ask            func(*asked)
		want           string
	}{
		{"signing is digital signature", `allowed: [digital signature, server auth]`, csrs, usages("signing", "server auth"), "Approve"},
		{"digital signature is signing", `allowed: [signing, server auth]`, csrs, usages("digital signature", "server auth"), "Approve"},
		{"s/mime is email protection", `allowed: [email protection], required: [s/mime]`, csrs, usages("s/mime"), "Approve"},
		{"any contains all purposes", `allowed: [any]`, csrs, usages("client auth", "code signing", "any"), "Approve"},
		{"any contains no key usages", `allowed: [any]`, csrs, usages("client auth", "key encipherment"), "Deny; p certificate.usages.allowed UsageNotPermitted usages[1]=key encipherment"},
		{"nothing contains any", `allowed: [server auth, client auth]`, csrs, usages("any"), "Deny; p certificate.usages.allowed UsageNotPermitted usages[0]=any"},
		{"inside", `allowed: [digital signature, server auth]`, csrs, inside(x509.KeyUsageKeyEncipherment, x509.ExtKeyUsageClientAuth),
			"Deny; p certificate.usages.allowed UsageNotPermitted usages[2]=key encipherment; p certificate.usages.allowed UsageNotPermitted usages[3]=client auth"},
		{"inside, the same", `allowed: [digital signature, server auth]`, csrs, inside(x509.KeyUsageDigitalSignature, x509.ExtKeyUsageServerAuth), "Approve"},
		{"a purpose without a name", `allowed: [digital signature, server auth]`, csrs, purposes([]int{1, 2, 3}), "Deny; p certificate.usages.allowed UsageNotPermitted usages[2]=1.2.3"},
		{"a purpose by its identifier", `allowed: [digital signature, server auth, 1.2.3], required: [1.2.3]`, csrs, purposes([]int{1, 2, 3}), "Approve"},
		{"a named purpose by its identifier", `allowed: [digital signature, 1.3.6.1.5.5.7.3.1]`, csrs, usages("digital signature", "server auth"), "Approve"},
		{"none in a CertificateRequest are the two defaults", `allowed: [digital signature, key encipherment]`, crs, usages(), "Approve"},
		{"none in a CertificateRequest, none allowed of them", `allowed: [server auth]`, crs, usages(),
			"Deny; p certificate.usages.allowed UsageNotPermitted usages[0]=digital signature; p certificate.usages.allowed UsageNotPermitted usages[1]=key encipherment"},
		{"a pod asks for none, and the signer decides", `allowed: [server auth], required: [server auth]`, pcrs, nil, "Approve"},
		{"a stub that asks", `allowed: [server auth]`, pcrs, inside(0, x509.ExtKeyUsageClientAuth), "Deny; p certificate.usages.allowed UsageNotPermitted usages[0]=client auth"},
		{"required", `required: [server auth, digital signature]`, csrs, usages("client auth", "signing"), "Deny; p certificate.usages.required UsageRequired usages"},
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {usages: {` + tc.usages + `}}}`, "q": `{effect: Allow, match: {signers: ["*"]}, certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature, key encipherment, 1.2.3]}}}`})
		if got := brief(decide(t, s, of(tc.kind).but(tc.ask))); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
		}
	}
}

// TestAuthority: everything that asks for a CA does.
func TestAuthority(t *testing.T) {
	s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {authority: {}}}`, "everything": everything})
	issuer := func(a *asked) { a.signer = "clusterissuers.cert-manager.io/internal" }
	for _, tc := range []struct {
		reason string
		kind   v1alpha1.RequestKind
		ask    func(*asked)
		is     bool
	}{
		{"nothing", csrs, nil, false},
		{"the field", crs, func(a *asked) { a.isCA = true }, true},
		{"the annotation", csrs, func(a *asked) {
			issuer(a)
			a.annotations = map[string]string{"experimental.cert-manager.io/request-is-ca": "true"}
		}, true},
		{"basic constraints", csrs, func(a *asked) { a.ca = &pki.BasicConstraints{IsCA: true} }, true},
		{"basic constraints of no CA", csrs, func(a *asked) { a.ca = &pki.BasicConstraints{MaxPathLen: -1} }, false},
		{"cert sign", csrs, func(a *asked) { a.usages = append(a.usages, "cert sign") }, true},
		{"crl sign", csrs, func(a *asked) { a.usages = append(a.usages, "crl sign") }, true},
		{"keyCertSign", csrs, func(a *asked) { a.inside = &pki.Usages{Key: x509.KeyUsageCertSign} }, true},
		{"cRLSign of a pod", pcrs, func(a *asked) { a.inside = &pki.Usages{Key: x509.KeyUsageCRLSign} }, true},
	} {
		d := decide(t, s, of(tc.kind).but(tc.ask))
		if (d.Outcome == v1alpha1.OutcomeDeny) != tc.is || tc.is && d.Reason != certpolicy.ReasonCA {
			t.Errorf("%s: %s", tc.reason, brief(d))
		}
	}
}

// TestPermittedNames: a CA's name constraints lie within the policy's.
func TestPermittedNames(t *testing.T) {
	const permitted = `permitted: {dns: [example.com], ip: [10.0.0.0/8, "2001:db8::/32"], uri: [example.com], email: [example.com, ann@example.org]}`
	whole := func() pki.NameTrees {
		return pki.NameTrees{DNSDomains: []string{"example.com"}, IPRanges: ipNet("10.0.0.0/8"), URIDomains: []string{"example.com"}, EmailAddresses: []string{"example.com"}}
	}
	for _, tc := range []struct {
		reason string
		change func(*pki.NameTrees)
		want   string // the violations' values
	}{
		{"the same", func(*pki.NameTrees) {}, "Approve"},
		{"below", func(n *pki.NameTrees) { n.DNSDomains = []string{"a.example.com", ".example.com", "EXAMPLE.com"} }, "Approve"},
		{"beside", func(n *pki.NameTrees) { n.DNSDomains = append(n.DNSDomains, "badexample.com") }, "dns=badexample.com"},
		{"above", func(n *pki.NameTrees) { n.DNSDomains = []string{"com"} }, "dns=com"},
		{"all names", func(n *pki.NameTrees) { n.DNSDomains = []string{""} }, "dns"},
		{"all names below nothing", func(n *pki.NameTrees) { n.DNSDomains = []string{"."} }, "dns=."},
		{"no constraint", func(n *pki.NameTrees) { n.DNSDomains = nil }, "dns"},
		{"a smaller network", func(n *pki.NameTrees) { n.IPRanges = ipNet("10.1.0.0/16") }, "Approve"},
		{"a larger network", func(n *pki.NameTrees) { n.IPRanges = ipNet("0.0.0.0/0") }, "ip=0.0.0.0/0"},
		{"another network", func(n *pki.NameTrees) { n.IPRanges = ipNet("11.0.0.0/8") }, "ip=11.0.0.0/8"},
		{"IPv6", func(n *pki.NameTrees) { n.IPRanges = ipNet("2001:db8:1::/48") }, "Approve"},
		{"all of IPv6", func(n *pki.NameTrees) { n.IPRanges = ipNet("::/0") }, "ip=::/0"},
		{"a host of URIs", func(n *pki.NameTrees) { n.URIDomains = []string{"www.example.com", ".example.com"} }, "Approve"},
		{"another host of URIs", func(n *pki.NameTrees) { n.URIDomains = []string{".example.org"} }, "uri=.example.org"},
		{"a mailbox", func(n *pki.NameTrees) {
			n.EmailAddresses = []string{"ann@example.com", "ann@example.org", "a.example.com"}
		}, "Approve"},
		{"another mailbox", func(n *pki.NameTrees) { n.EmailAddresses = []string{"bob@example.org"} }, "email=bob@example.org"},
		{"all mailboxes of a host", func(n *pki.NameTrees) { n.EmailAddresses = []string{"example.org"} }, "email=example.org"},
	} {
		trees := whole()
		tc.change(&trees)
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {authority: {allowed: true, ` + permitted + `}}}`, "everything": everything})
		d := decide(t, s, of(csrs).but(func(a *asked) {
			a.ca, a.constraints = &pki.BasicConstraints{IsCA: true, MaxPathLen: 0}, &pki.NameConstraints{Critical: true, Permitted: trees}
		}))
		got := "Approve"
		for i, v := range d.Violations {
			text := v.At[len("certificate.authority.permitted."):]
			if v.Value != "" {
				text += "=" + v.Value
			}
			if i == 0 {
				got = text
			} else {
				got += " " + text
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s: %s", tc.reason, got, tc.want, d.Message)
		}
	}
}

// TestPathLength: a CA without a limit may have any number below it.
func TestPathLength(t *testing.T) {
	for max, want := range map[string]map[int]bool{"0": {0: true, 1: false, -1: false}, "2": {0: true, 2: true, 3: false, -1: false}} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {authority: {allowed: true, maxPathLength: ` + max + `}}}`, "everything": everything})
		for length, ok := range want {
			d := decide(t, s, of(csrs).but(func(a *asked) { a.ca = &pki.BasicConstraints{IsCA: true, MaxPathLen: length} }))
			if (d.Outcome == v1alpha1.OutcomeApprove) != ok {
				t.Errorf("at most %s, asked for %d: %s", max, length, brief(d))
			}
		}
		if d := decide(t, s, of(crs).but(func(a *asked) { a.isCA = true })); d.Outcome != v1alpha1.OutcomeDeny {
			t.Errorf("no basic constraints: %s", brief(d))
		}
		if d := decide(t, s, of(crs)); d.Outcome != v1alpha1.OutcomeApprove {
			t.Errorf("no CA: %s", brief(d))
		}
	}
}

// TestKeys: RSA keys by their size in bits, others by their type.
func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		keys string
		key  pki.KeyType
		want bool
	}{
		{`types: [ECDSAP256]`, pki.ECDSAP256, true}, {`types: [ECDSAP256]`, pki.ECDSAP384, false}, {`types: [ECDSAP384]`, pki.ECDSAP384, true},
		{`types: [ECDSAP521]`, pki.ECDSAP521, true}, {`types: [ED25519]`, pki.Ed25519, true}, {`types: [RSA2048]`, pki.RSA2048, true},
		{`types: [RSA3072]`, pki.RSA2048, false}, {`rsa: {}`, pki.RSA2048, true}, {`rsa: {}`, pki.ECDSAP256, false},
		{`rsa: {minBits: 2048}`, pki.RSA2048, true}, {`rsa: {minBits: 2049}`, pki.RSA2048, false}, {`rsa: {maxBits: 2048}`, pki.RSA2048, true},
		{`types: [RSA2048], rsa: {minBits: 4096}`, pki.RSA2048, true}, {`types: [ED25519], rsa: {minBits: 4096}`, pki.Ed25519, true},
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {` + tc.keys + `}}}`, "everything": everything})
		if d := decide(t, s, of(csrs).but(func(a *asked) { a.key = tc.key })); (d.Outcome == v1alpha1.OutcomeApprove) != tc.want {
			t.Errorf("%s, %s: %s", tc.keys, tc.key, brief(d))
		}
	}
}
