package acmeserver_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// raw is an ACME client that can send anything.
type raw struct {
	t        *testing.T
	http     *http.Client
	dial     string // the process that is asked
	external string
	endpoint string
	key      *ecdsa.PrivateKey
	kid      string
	nonce    string
}

// clientOf returns a client of a server with a URL, without an account.
func (w *world) clientOf(url string) *raw {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	return &raw{t: w.t, dial: url, external: url, endpoint: w.endpoint.Name, key: key}
}

// client returns a client of one of the processes, without an account.
func (w *world) client(of ...int) *raw {
	w.t.Helper()
	f := w.fronts[0]
	if len(of) > 0 {
		f = w.fronts[of[0]]
	}
	c := w.clientOf(f.external)
	plain := *f.http.Client()
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http, c.dial = &plain, f.http.URL
	return c
}

// registered returns a client with an account.
func (w *world) registered(of ...int) *raw {
	w.t.Helper()
	c := w.client(of...)
	c.register(map[string]any{})
	return c
}

func (c *raw) register(payload map[string]any) *response {
	c.t.Helper()
	r := c.post(c.url("new-account"), payload)
	if r.code != http.StatusCreated {
		c.t.Fatalf("new-account: %d %s", r.code, r.body)
	}
	c.kid = r.header.Get("Location")
	return r
}

func (c *raw) url(path string) string { return c.external + "/acme/" + c.endpoint + "/" + path }

// response is an answer.
type response struct {
	code   int
	header http.Header
	body   string
}

func (r *response) json(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(r.body), &object); err != nil {
		t.Fatalf("the answer %q: %v", r.body, err)
	}
	return object
}

// problem returns the type of the problem, without its prefix.
func (r *response) problem() string {
	var p struct{ Type string }
	_ = json.Unmarshal([]byte(r.body), &p)
	return strings.TrimPrefix(p.Type, "urn:ietf:params:acme:error:")
}

// links returns the targets of the header Link with a relation.
func (r *response) links(relation string) (targets []string) {
	for _, l := range r.header.Values("Link") {
		if target, found := strings.CutSuffix(l, `>;rel="`+relation+`"`); found {
			targets = append(targets, strings.TrimPrefix(target, "<"))
		}
	}
	return targets
}

// sent is a message before it is signed.
type sent struct {
	method    string
	header    map[string]any
	payload   string // not encoded
	key       *ecdsa.PrivateKey
	signature string // instead of the right one
	body      string // instead of everything
	http      http.Header
	target    string // to where it is sent, instead of the URL
	keepNonce bool
}

// post sends a signed message. A nil payload is empty; a string is sent as it is.
func (c *raw) post(url string, payload any, edits ...func(*sent)) *response {
	c.t.Helper()
	if c.nonce == "" {
		c.nonce = c.newNonce()
	}
	s := &sent{
		method: http.MethodPost, key: c.key, target: url, http: http.Header{"Content-Type": {"application/jose+json"}},
		header: map[string]any{"alg": "ES256", "nonce": c.nonce, "url": url},
	}
	if c.kid != "" {
		s.header["kid"] = c.kid
	} else {
		s.header["jwk"] = jwk(&c.key.PublicKey)
	}
	switch payload := payload.(type) {
	case nil:
	case string:
		s.payload = payload
	default:
		s.payload = string(encoded(c.t, payload))
	}
	for _, edit := range edits {
		edit(s)
	}
	body := s.body
	if body == "" {
		body = string(encoded(c.t, flattened(c.t, s.header, s.payload, s.key, s.signature)))
	}
	r := c.send(s.method, s.target, body, s.http)
	if fresh := r.header.Get("Replay-Nonce"); fresh != "" && !s.keepNonce {
		c.nonce = fresh
	}
	return r
}

// send sends a request to the process of the client, whatever the URL's host is.
func (c *raw) send(method, url, body string, header http.Header) *response {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.dial+strings.TrimPrefix(url, c.external), strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header = header.Clone()
	answer, err := c.http.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return &response{answer.StatusCode, answer.Header, string(data)}
}

func (c *raw) newNonce() string {
	c.t.Helper()
	return c.send(http.MethodHead, c.url("new-nonce"), "", nil).header.Get("Replay-Nonce")
}

func flattened(t *testing.T, header map[string]any, payload string, key *ecdsa.PrivateKey, signature string) map[string]string {
	t.Helper()
	protected := b64(encoded(t, header))
	m := map[string]string{"protected": protected, "payload": b64([]byte(payload)), "signature": signature}
	if signature == "" {
		m["signature"] = b64(sign(t, key, protected+"."+m["payload"]))
	}
	return m
}

func sign(t *testing.T, key *ecdsa.PrivateKey, input string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
}

func jwk(key *ecdsa.PublicKey) map[string]any {
	point, err := key.Bytes()
	if err != nil {
		panic(err)
	}
	return map[string]any{"kty": "EC", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])}
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(value); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// binding returns the external account binding of a client.
func (c *raw) binding(kid string, mac []byte, edits ...func(map[string]any)) map[string]string {
	header := map[string]any{"alg": "HS256", "kid": kid, "url": c.url("new-account")}
	for _, edit := range edits {
		edit(header)
	}
	m := map[string]string{"protected": b64(encoded(c.t, header)), "payload": b64(encoded(c.t, jwk(&c.key.PublicKey)))}
	sum := hmac.New(sha256.New, mac)
	sum.Write([]byte(m["protected"] + "." + m["payload"]))
	m["signature"] = b64(sum.Sum(nil))
	return m
}

// order makes an order for DNS names and addresses and returns its URL and what was
// answered.
func (c *raw) order(names ...string) (string, map[string]any) {
	c.t.Helper()
	r := c.post(c.url("new-order"), map[string]any{"identifiers": identifiers(names...)})
	if r.code != http.StatusCreated {
		c.t.Fatalf("new-order: %d %s", r.code, r.body)
	}
	return r.header.Get("Location"), r.json(c.t)
}

func identifiers(names ...string) []map[string]string {
	var ids []map[string]string
	for _, name := range names {
		kind := "dns"
		if net.ParseIP(name) != nil {
			kind = "ip"
		}
		ids = append(ids, map[string]string{"type": kind, "value": name})
	}
	return ids
}

// csr returns a certificate request, in base64url.
func csr(t *testing.T, key crypto.Signer, names ...string) string {
	t.Helper()
	template := &x509.CertificateRequest{}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return b64(der)
}

func lastPart(url string) string { return url[strings.LastIndex(url, "/")+1:] }
