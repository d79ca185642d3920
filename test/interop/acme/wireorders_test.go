package acme

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/apitest/jwstest"
)

// ordering returns a row of new-order.
func ordering(name, payload string) wireRow {
	return wireRow{name, func(c *talker) reply { return c.post(c.urls["newOrder"], payload) }}
}

func orderRows() []wireRow {
	rows := []wireRow{
		ordering("new-order, POST-as-GET", ``), ordering("new-order, payload null", `null`), ordering("new-order, payload an array", `[]`), ordering("new-order, payload no JSON", `x`),
		ordering("new-order, no identifiers", `{}`), ordering("new-order, identifiers empty", `{"identifiers":[]}`), ordering("new-order, identifiers no list", `{"identifiers":"a.example.com"}`),
		ordering("new-order, a member twice", `{"identifiers":[{"type":"dns","value":"x.example.com"}],"identifiers":[{"type":"dns","value":"y.example.com"}]}`),
		ordering("new-order, an unknown member", `{"identifiers":[{"type":"dns","value":"z.example.com"}],"resource":"new-order"}`),
		ordering("new-order, type of another kind", `{"identifiers":[{"type":"email","value":"a@example.com"}]}`),
		ordering("new-order, no type", `{"identifiers":[{"value":"a.example.com"}]}`),
		ordering("new-order, a name twice", `{"identifiers":[{"type":"dns","value":"twice.example.com"},{"type":"dns","value":"twice.example.com"}]}`),
		ordering("new-order, unknown profile", `{"profile":"none","identifiers":[{"type":"dns","value":"a.example.com"}]}`),
		ordering("new-order, profile", `{"profile":"default","identifiers":[{"type":"dns","value":"p.example.com"}]}`),
		ordering("new-order, notAfter no time", `{"notAfter":"tomorrow","identifiers":[{"type":"dns","value":"a.example.com"}]}`),
		ordering("new-order, notAfter past", `{"notAfter":"2001-01-01T00:00:00Z","identifiers":[{"type":"dns","value":"a.example.com"}]}`),
		ordering("new-order, notAfter in an hour", `{"notAfter":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`","identifiers":[{"type":"dns","value":"a.example.com"}]}`),
		ordering("new-order, replaces no identifier", `{"replaces":"x","identifiers":[{"type":"dns","value":"a.example.com"}]}`),
		ordering("new-order, replaces an unknown certificate", `{"replaces":"AAAA.AAAA","identifiers":[{"type":"dns","value":"a.example.com"}]}`),
		{"order, POST-as-GET", func(c *talker) reply { return c.post(c.order("get.example.com"), ``) }},
		{"order, payload {}", func(c *talker) reply { return c.post(c.order("get.example.com"), `{}`) }},
		{"order, GET", func(c *talker) reply { return c.send(http.MethodGet, c.order("get.example.com"), "") }},
		{"order of another one", func(c *talker) reply { return c.other().post(c.order("get.example.com"), ``) }},
		{"an unknown order", func(c *talker) reply { return c.post(c.order("get.example.com")+"0", ``) }},
		{"authorization, POST-as-GET", func(c *talker) reply { return c.post(c.authz("get.example.com"), ``) }},
		{"authorization, payload {}", func(c *talker) reply { return c.post(c.authz("get.example.com"), `{}`) }},
		{"authorization, GET", func(c *talker) reply { return c.send(http.MethodGet, c.authz("get.example.com"), "") }},
		{"authorization of another one", func(c *talker) reply { return c.other().post(c.authz("get.example.com"), ``) }},
		{"an unknown authorization", func(c *talker) reply { return c.post(c.authz("get.example.com")+"0", ``) }},
		{"authorization, deactivated", func(c *talker) reply { return c.post(c.authz("off.example.com"), `{"status":"deactivated"}`) }},
		{"authorization, status valid", func(c *talker) reply { return c.post(c.authz("get.example.com"), `{"status":"valid"}`) }},
		{"challenge, POST-as-GET", func(c *talker) reply { return c.post(c.challenge("get.example.com"), ``) }},
		{"challenge, GET", func(c *talker) reply { return c.send(http.MethodGet, c.challenge("get.example.com"), "") }},
		{"challenge of another one", func(c *talker) reply { return c.other().post(c.challenge("get.example.com"), `{}`) }},
		{"an unknown challenge", func(c *talker) reply { return c.post(c.challenge("get.example.com")+"0", `{}`) }},
		{"challenge, payload []", func(c *talker) reply { return c.post(c.challenge("list.example.com"), `[]`) }},
		{"challenge, payload x", func(c *talker) reply { return c.post(c.challenge("list.example.com"), `x`) }},
		{"challenge, payload {}", func(c *talker) reply { return c.post(c.challenge("go.example.com"), `{}`) }},
	}
	for _, name := range []string{
		"UPPER.example.com", "dot.example.com.", "under_score.example.com", strings.Repeat("a", 64) + ".example.com", strings.Repeat("a.", 122) + "example.com", "localhost", "10.0.0.1",
		"a..example.com", ".example.com", "", "a b.example.com", "a.example.com\\n", "-a.example.com", "bücher.example.com", "xn--bcher-kva.example.com", "xn--0.example.com", "*.example.com", "*.*.example.com",
		"a.*.example.com", "*a.example.com", "*", "*.com", "a.example.com:80", "https://a.example.com", "blocked.example",
	} {
		rows = append(rows, ordering("dns "+name, `{"identifiers":[{"type":"dns","value":"`+name+`"}]}`))
	}
	for _, value := range []string{"10.0.0.1", "10.0.0.01", "10.0.0.0/8", "010.0.0.1", "2001:db8::1", "2001:DB8::1", "2001:db8:0::1", "[2001:db8::1]", "::ffff:10.0.0.1", "2001:db8::1%eth0", "", "a.example.com"} {
		rows = append(rows, ordering("ip "+value, `{"identifiers":[{"type":"ip","value":"`+value+`"}]}`))
	}
	return rows
}

// order places an order for a name and returns its URL.
func (c *talker) order(name string) string {
	c.t.Helper()
	r := c.post(c.urls["newOrder"], `{"identifiers":[{"type":"dns","value":"`+name+`"}]}`)
	r.object(c.t)
	return r.header.Get("Location")
}

func (c *talker) authz(name string) string {
	c.t.Helper()
	return c.post(c.order(name), ``).object(c.t)["authorizations"].([]any)[0].(string)
}

func (c *talker) challenge(name string) string {
	c.t.Helper()
	return c.challengeOf(c.authz(name))
}

// challengeOf returns the URL of the http-01 challenge.
func (c *talker) challengeOf(authz string) string {
	c.t.Helper()
	for _, each := range c.post(authz, ``).object(c.t)["challenges"].([]any) {
		if challenge := each.(map[string]any); challenge["type"] == "http-01" {
			return challenge["url"].(string)
		}
	}
	c.t.Fatal("there is no http-01")
	return ""
}

// ready returns an order for a name whose challenge is valid, and where to finalize it.
func (c *talker) ready(name string) (order, finalize string) {
	c.t.Helper()
	order = c.order(name)
	c.post(c.challengeOf(c.post(order, ``).object(c.t)["authorizations"].([]any)[0].(string)), `{}`)
	return order, c.until(order, "ready")["finalize"].(string)
}

func (c *talker) until(order, status string) (now map[string]any) {
	c.t.Helper()
	eventually(c.t, "the order is "+status, func() bool {
		now = c.post(order, ``).object(c.t)
		return now["status"] == status
	})
	return now
}

// newCSR returns the payload of finalize, with a change of what is requested.
func (c *talker) newCSR(key jwstest.Key, change func(*x509.CertificateRequest), names ...string) string {
	c.t.Helper()
	template := &x509.CertificateRequest{DNSNames: names}
	change(template)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key.Signer)
	if err != nil {
		c.t.Fatal(err)
	}
	return `{"csr":"` + jwstest.Base64(string(der)) + `"}`
}

func same(*x509.CertificateRequest) {}

// finalizing returns a row of finalize of an order that is ready for fin.example.com.
func finalizing(name string, payload func(*talker) string) wireRow {
	return wireRow{name, func(c *talker) reply {
		_, finalize := c.ready("fin.example.com")
		return c.post(finalize, payload(c))
	}}
}

func finalizeRows() []wireRow {
	const host = "fin.example.com"
	of := func(change func(*x509.CertificateRequest), names ...string) func(*talker) string {
		return func(c *talker) string { return c.newCSR(c.unknown().key, change, names...) }
	}
	text := func(payload string) func(*talker) string { return func(*talker) string { return payload } }
	return []wireRow{
		{"finalize, not ready", func(c *talker) reply {
			finalize := c.post(c.order("early.example.com"), ``).object(c.t)["finalize"].(string)
			return c.post(finalize, c.newCSR(c.unknown().key, same, "early.example.com"))
		}},
		{"finalize of another one", func(c *talker) reply {
			_, finalize := c.ready(host)
			return c.other().post(finalize, c.newCSR(c.unknown().key, same, host))
		}},
		finalizing("finalize, POST-as-GET", text(``)), finalizing("finalize, payload {}", text(`{}`)), finalizing("finalize, no base64", text(`{"csr":"+"}`)),
		finalizing("finalize, padded base64", text(`{"csr":"AA=="}`)), finalizing("finalize, no DER", text(`{"csr":"AAAA"}`)),
		finalizing("finalize, PEM", text(`{"csr":"-----BEGIN CERTIFICATE REQUEST-----"}`)),
		finalizing("finalize, other names", of(same, "other.example.com")), finalizing("finalize, one name more", of(same, host, "more.example.com")), finalizing("finalize, no names", of(same)),
		finalizing("finalize, the name twice", of(same, host, host)), finalizing("finalize, the name in capitals", of(same, strings.ToUpper(host))),
		finalizing("finalize, only a common name", of(func(r *x509.CertificateRequest) { r.Subject = pkix.Name{CommonName: host} })),
		finalizing("finalize, another common name", of(func(r *x509.CertificateRequest) { r.Subject = pkix.Name{CommonName: "other.example.com"} }, host)),
		finalizing("finalize, an email address", of(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} }, host)),
		finalizing("finalize, by the account key", func(c *talker) string { return c.newCSR(c.key, same, host) }),
		finalizing("finalize, a weak key", func(c *talker) string {
			weak, err := rsa.GenerateKey(rand.Reader, 1024)
			if err != nil {
				c.t.Fatal(err)
			}
			return c.newCSR(jwstest.Key{Signer: weak}, same, host)
		}),
		finalizing("finalize, bytes after it", func(c *talker) string {
			good := of(same, host)(c)
			return good[:len(good)-2] + jwstest.Base64("\x00\x00\x00") + `"}`
		}),
		finalizing("finalize", of(same, host)),
		{"finalize again, the same", func(c *talker) reply {
			order, finalize := c.ready(host)
			csr := of(same, host)(c)
			c.post(finalize, csr)
			c.until(order, "valid")
			return c.post(finalize, csr)
		}},
		{"finalize again, another one", func(c *talker) reply {
			order, finalize := c.ready(host)
			c.post(finalize, of(same, host)(c))
			c.until(order, "valid")
			return c.post(finalize, of(same, host)(c))
		}},
	}
}

// issuance is an order with its certificate.
type issuance struct {
	url  string
	leaf *x509.Certificate
	key  jwstest.Key
}

// issue gets a certificate.
func (c *talker) issue() *issuance {
	c.t.Helper()
	key := c.unknown().key
	order, finalize := c.ready("cert.example.com")
	c.post(finalize, c.newCSR(key, same, "cert.example.com")).object(c.t)
	i := &issuance{url: c.until(order, "valid")["certificate"].(string), key: key}
	block, _ := pem.Decode(c.post(i.url, ``).body)
	var err error
	if i.leaf, err = x509.ParseCertificate(block.Bytes); err != nil {
		c.t.Fatal(err)
	}
	return i
}

// issued returns a certificate that rows share.
func (c *talker) issued() *issuance {
	c.t.Helper()
	if c.cached == nil {
		c.cached = c.issue()
	}
	return c.cached
}

// revoke asks for revocation, with more members.
func (c *talker) revoke(der []byte, more string) reply {
	c.t.Helper()
	return c.post(c.urls["revokeCert"], `{"certificate":"`+jwstest.Base64(string(der))+`"`+more+`}`)
}

func (c *talker) renewalInfo(id string) reply {
	c.t.Helper()
	return c.send(http.MethodGet, c.urls["renewalInfo"]+"/"+id, "")
}

func (i *issuance) renewalID() string {
	serial := i.leaf.SerialNumber.Bytes()
	if serial[0] > 127 {
		serial = append([]byte{0}, serial...)
	}
	return jwstest.Base64(string(i.leaf.AuthorityKeyId)) + "." + jwstest.Base64(string(serial))
}

var certificateRows = []wireRow{
	{"certificate, POST-as-GET", func(c *talker) reply { return c.post(c.issued().url, ``) }},
	{"certificate, payload {}", func(c *talker) reply { return c.post(c.issued().url, `{}`) }},
	{"certificate, GET", func(c *talker) reply { return c.send(http.MethodGet, c.issued().url, "") }},
	{"certificate of another one", func(c *talker) reply { return c.other().post(c.issued().url, ``) }},
	{"an unknown certificate", func(c *talker) reply { return c.post(c.issued().url+"0", ``) }},
	{"certificate, Accept of DER", func(c *talker) reply {
		url := c.issued().url
		return c.send(http.MethodPost, url, c.signed(url, ``), "Accept: application/pkix-cert")
	}},
	{"renewal information", func(c *talker) reply { return c.renewalInfo(c.issued().renewalID()) }},
	{"renewal information of no identifier", func(c *talker) reply { return c.renewalInfo("x") }},
	{"renewal information, padded", func(c *talker) reply { return c.renewalInfo("AA==.AA==") }},
	{"renewal information, two dots", func(c *talker) reply { return c.renewalInfo("AAAA.AAAA.AAAA") }},
	{"renewal information, unknown", func(c *talker) reply { return c.renewalInfo("AAAA.AAAA") }},
	{"new-order, replaces", func(c *talker) reply {
		return c.post(c.urls["newOrder"], `{"replaces":"`+c.issued().renewalID()+`","identifiers":[{"type":"dns","value":"cert.example.com"}]}`)
	}},
	{"new-order, replaces of another one", func(c *talker) reply {
		return c.other().post(c.urls["newOrder"], `{"replaces":"`+c.issue().renewalID()+`","identifiers":[{"type":"dns","value":"cert.example.com"}]}`)
	}},
	{"new-order, replaces with other names", func(c *talker) reply {
		return c.post(c.urls["newOrder"], `{"replaces":"`+c.issue().renewalID()+`","identifiers":[{"type":"dns","value":"no.example.com"}]}`)
	}},
	{"revoke-cert, no DER", func(c *talker) reply { return c.revoke([]byte("x"), "") }},
	{"revoke-cert, no certificate", func(c *talker) reply { return c.post(c.urls["revokeCert"], `{}`) }},
	{"revoke-cert of an unknown certificate", func(c *talker) reply {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, c.key.Public(), c.key.Signer)
		if err != nil {
			c.t.Fatal(err)
		}
		return c.revoke(der, "")
	}},
	{"revoke-cert by another one", func(c *talker) reply { return c.other().revoke(c.issued().leaf.Raw, "") }},
	{"revoke-cert by another key", func(c *talker) reply { return c.unknown().revoke(c.issued().leaf.Raw, "") }},
	{"revoke-cert, reason 2", func(c *talker) reply { return c.revoke(c.issue().leaf.Raw, `,"reason":2`) }},
	{"revoke-cert, reason 6", func(c *talker) reply { return c.revoke(c.issue().leaf.Raw, `,"reason":6`) }},
	{"revoke-cert, reason 7", func(c *talker) reply { return c.revoke(c.issued().leaf.Raw, `,"reason":7`) }},
	{"revoke-cert, reason 99", func(c *talker) reply { return c.revoke(c.issued().leaf.Raw, `,"reason":99`) }},
	{"revoke-cert, reason a text", func(c *talker) reply { return c.revoke(c.issued().leaf.Raw, `,"reason":"1"`) }},
	{"revoke-cert by the account", func(c *talker) reply { return c.revoke(c.issue().leaf.Raw, `,"reason":4`) }},
	{"revoke-cert by the certificate's key", func(c *talker) reply {
		i := c.issue()
		o := c.unknown()
		o.key = i.key
		return o.revoke(i.leaf.Raw, "")
	}},
	{"revoke-cert twice", func(c *talker) reply {
		i := c.issue()
		c.revoke(i.leaf.Raw, "")
		return c.revoke(i.leaf.Raw, "")
	}},
}
