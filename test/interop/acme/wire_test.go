package acme

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/jwstest"
	"github.com/certplane/certplane/internal/run/server"
)

// wireEndpoint is an endpoint of certplane's own ACME server that is as open as Pebble:
// the names of all hosts are at this one.
const wireEndpoint = `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: web}
---
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: hosts}
spec:
  signerName: example.com/hosts
  requests: [CertificateSigningRequest]
  ca: {generated: {}}
  profile: {names: {dnsNames: request.dnsNames}, usages: [digital signature, key encipherment, server auth]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wire}
rules:
- {apiGroups: [certplane.dev], resources: [acmeendpoints], resourceNames: [wire], verbs: [use, autoapprove]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wire}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: wire}
subjects: [{kind: ServiceAccount, namespace: default, name: web}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: default, name: wire}
rules: [{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [web], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: default, name: wire}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: wire}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: acme-orders}]
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata: {name: wire, annotations: {acme.certplane.dev/allow-local: "true"}}
spec:
  accounts: {admission: Open, serviceAccount: {namespace: default, name: web}, termsOfService: https://example.com/terms}
  identifiers: {dns: {allow: ["*.example.com", example.com, localhost], wildcards: Allow}, ip: {allow: [10.0.0.0/8, "2001:db8::/32"]}}
  challenges: {types: [http-01, dns-01, tls-alpn-01], http01: {ports: [PORT]}, dns: {servers: ["RESOLVER"]}, networks: {allow: [127.0.0.0/8]}, attempts: {interval: 1s}}
  limits: {pendingOrdersPerAccount: 1000, ordersPerAccountPerHour: 10000}
  profiles: [{name: default, signer: {name: example.com/hosts}}]
`

// talker is an ACME client that can send anything.
type talker struct {
	t         *testing.T
	http      *http.Client
	directory string
	urls      map[string]string
	key       jwstest.Key
	account   string
	cached    *issuance
	sent      int
}

// reply is what a server answers.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

// String is the status and, if the answer is a problem, its type.
func (r reply) String() string {
	var problem struct{ Type string }
	if json.Unmarshal(r.body, &problem) != nil || problem.Type == "" {
		return fmt.Sprint(r.code)
	}
	return fmt.Sprint(r.code, " ", strings.TrimPrefix(problem.Type, "urn:ietf:params:acme:error:"))
}

func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(r.body, &object); err != nil || r.code/100 != 2 {
		t.Fatalf("the answer %d %q: %v", r.code, r.body, err)
	}
	return object
}

// newTalker returns a client with a key, whose account is registered.
func newTalker(t *testing.T, directory string, key jwstest.Key) *talker {
	t.Helper()
	c := &talker{t: t, directory: directory, key: key, http: &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(c.http.CloseIdleConnections)
	eventually(t, "the directory is served", func() bool {
		r, err := c.http.Get(directory)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		var all map[string]any
		if r.StatusCode != http.StatusOK || json.NewDecoder(r.Body).Decode(&all) != nil {
			return false
		}
		c.urls = map[string]string{}
		for name, url := range all {
			c.urls[name], _ = url.(string)
		}
		return true
	})
	eventually(t, "there are accounts", func() bool { return c.register() == nil })
	return c
}

func (c *talker) register() error {
	r := c.post(c.urls["newAccount"], `{"termsOfServiceAgreed":true}`)
	if r.code/100 != 2 {
		return fmt.Errorf("%d %s", r.code, r.body)
	}
	c.account = r.header.Get("Location")
	return nil
}

// unknown returns the same client with a new key and without an account.
func (c *talker) unknown() *talker {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sent += 40
	return &talker{t: c.t, sent: c.sent, http: c.http, directory: c.directory, urls: c.urls, key: jwstest.Key{Signer: key, Alg: "ES256"}}
}

// other returns a client with another account.
func (c *talker) other() *talker {
	c.t.Helper()
	o := c.unknown()
	if err := o.register(); err != nil {
		c.t.Fatal(err)
	}
	return o
}

// send sends a request with headers, "Name: value", instead of the usual ones.
func (c *talker) send(method, url, body string, headers ...string) reply {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("User-Agent", "wire")
	c.sent++ // each is of another client, behind a proxy: there are limits for each address
	request.Header.Set("X-Forwarded-For", fmt.Sprintf("10.1.%d.%d", c.sent/250, c.sent%250))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/jose+json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, text}
}

// to returns a request to a URL, with a new nonce.
func (c *talker) to(url string) jwstest.Request {
	c.t.Helper()
	return jwstest.Request{URL: url, Account: c.account, Nonce: c.send(http.MethodHead, c.urls["newNonce"], "").header.Get("Replay-Nonce")}
}

// post sends a signed message, with changes of its header.
func (c *talker) post(url, payload string, changes ...string) reply {
	c.t.Helper()
	return c.send(http.MethodPost, url, c.signed(url, payload, changes...))
}

func (c *talker) signed(url, payload string, changes ...string) string {
	c.t.Helper()
	if c.account == "" {
		changes = append([]string{"kid:", "jwk:$JWK"}, changes...)
	}
	return c.key.Message(c.key.Header(c.to(url), changes...), payload).Body()
}

// thumbprint is that of RFC 7638, for a key of P-256.
func thumbprint(key jwstest.Key) string {
	var members struct {
		Crv string `json:"crv"`
		Kty string `json:"kty"`
		X   string `json:"x"`
		Y   string `json:"y"`
	}
	if err := json.Unmarshal([]byte(key.JWK()), &members); err != nil {
		panic(err)
	}
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return jwstest.Base64(string(sum[:]))
}

// startAnswers answers http-01 for a key, at any name, and returns the port.
func startAnswers(t *testing.T, key jwstest.Key) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := "." + thumbprint(key)
	server := &http.Server{ReadHeaderTimeout: timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, path.Base(r.URL.Path)+answer)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// TestWire sends the same requests to Pebble and to certplane. Each must be answered
// alike, or as the table of differences says, with the reason.
func TestWire(t *testing.T) {
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	t.Setenv("PEBBLE_AUTHZREUSE", "0")
	key := jwstest.Keys()["ES256"]
	port := startAnswers(t, key)
	_, resolver := startDNS(t)
	peer := startPebble(t, pebbleOptions{httpPort: port, resolver: resolver, blocked: []string{"blocked.example"}})
	address := apitest.FreeAddress(t)
	w := &world{t: t, Server: apitest.Start(t, func(cfg *server.Config) {
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL, cfg.ACMEServer.TrustedProxies = address, "https://"+address, []string{"127.0.0.0/8"}
	})}
	w.connect()
	kinds := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	certplane, err := client.New(w.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kinds are served", func() bool {
		return certplane.List(t.Context(), &v1alpha1.SignerList{}) == nil && certplane.List(t.Context(), &v1alpha1.AcmeEndpointList{}) == nil
	})
	w.apply(strings.NewReplacer("PORT", fmt.Sprint(port), "RESOLVER", resolver).Replace(wireEndpoint))
	eventually(t, "the endpoint is ready", func() bool {
		endpoint := &v1alpha1.AcmeEndpoint{}
		return certplane.Get(t.Context(), client.ObjectKey{Name: "wire"}, endpoint) == nil && meta.IsStatusConditionTrue(endpoint.Status.Conditions, v1alpha1.Ready)
	})
	ours, theirs := newTalker(t, "https://"+address+"/acme/wire/directory", key), newTalker(t, peer.directory, key)
	var table bytes.Buffer
	seen := map[string]bool{}
	for _, row := range wireRows(key) {
		if seen[row.name] {
			t.Errorf("two rows have the name %q", row.name)
		}
		seen[row.name] = true
		a, b := row.send(ours), row.send(theirs)
		fmt.Fprintf(&table, "%-60s %-32s %s\n", row.name, a, b)
		want, differs := wireDifferences[row.name]
		switch {
		case !differs && a.String() != b.String():
			t.Errorf("%s: certplane answers %s, Pebble %s, and the table has no reason\ncertplane: %s\nPebble: %s", row.name, a, b, a.body, b.body)
		case differs && (a.String() != want.ours || b.String() != want.pebble):
			t.Errorf("%s: certplane answers %s, Pebble %s; the table says %s and %s", row.name, a, b, want.ours, want.pebble)
		}
	}
	for name := range wireDifferences {
		if !seen[name] {
			t.Errorf("the table has the difference %q, which is no row", name)
		}
	}
	t.Logf("%d requests; certplane, then Pebble:\n%s", len(seen), table.String())
}
