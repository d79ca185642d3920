package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/acme/solver/solvertest"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer/webhook/webhooktest"
	"github.com/certplane/certplane/internal/pki"
)

const (
	group  = "acme.example.com"
	solver = "cloud"
)

var example = Request{
	Action: Present, Type: "dns-01", DNSName: "example.com", Key: "k", ResourceNamespace: "ns",
	ResolvedFQDN: "_acme-challenge.example.com.", ResolvedZone: "example.com.",
	Config: &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)},
}

// call is what a webhook has received.
type call struct {
	method, path, body string
	header             http.Header
	client             string // the name in the client certificate
}

// received answers with a status and a body, and sends what came.
func received(calls chan<- call, status int, answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := call{method: r.Method, path: r.URL.RequestURI(), body: string(body), header: r.Header}
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			got.client = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		calls <- got
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}
}

const success = `{"response":{"uid":"","success":true}}`

// behindAPI returns a Caller for an API server with this handler.
func behindAPI(t *testing.T, handler http.Handler) *Caller {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(Config{API: &rest.Config{Host: server.URL, BearerToken: "ours", UserAgent: "certplane/1"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWire: third-party webhooks get the same bytes as from cert-manager.
func TestWire(t *testing.T) {
	tests := []struct {
		reason  string
		request Request
		body    string
	}{
		{
			reason: "all fields", request: example,
			body: `{"request":{"uid":"","action":"Present","type":"dns-01","dnsName":"example.com","key":"k","resourceNamespace":"ns","resolvedFQDN":"_acme-challenge.example.com.","resolvedZone":"example.com.","allowAmbientCredentials":false,"config":{"a":1}}}` + "\n",
		},
		{
			reason:  "what is left out when empty",
			request: Request{UID: "1-CleanUp", Action: CleanUp, Type: "dns-01", AllowAmbientCredentials: true},
			body:    `{"request":{"uid":"1-CleanUp","action":"CleanUp","type":"dns-01","dnsName":"","key":"","resourceNamespace":"","allowAmbientCredentials":true}}` + "\n",
		},
		{
			reason:  "characters of HTML in the configuration",
			request: Request{Config: &apiextensionsv1.JSON{Raw: []byte(`{ "a" : "<&>" }`)}},
			body:    `{"request":{"uid":"","action":"","type":"","dnsName":"","key":"","resourceNamespace":"","allowAmbientCredentials":false,"config":{"a":"\u003c\u0026\u003e"}}}` + "\n",
		},
	}
	for _, tc := range tests {
		calls := make(chan call, 1)
		c := behindAPI(t, received(calls, http.StatusCreated, success))
		if err := c.Call(t.Context(), group, solver, tc.request); err != nil {
			t.Fatal(err)
		}
		got := <-calls
		if diff := cmp.Diff(tc.body, got.body); diff != "" {
			t.Errorf("%s: body (-want +got):\n%s", tc.reason, diff)
		}
		want := []string{"POST", "/apis/acme.example.com/v1alpha1/cloud", "application/json", "application/json, */*", "certplane/1", "Bearer ours"}
		header := got.header.Get
		if diff := cmp.Diff(want, []string{got.method, got.path, header("Content-Type"), header("Accept"), header("User-Agent"), header("Authorization")}); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func statusBody(code int, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"code":%d}`, message, code)
}

func TestOutcomes(t *testing.T) {
	tests := []struct {
		reason string
		status int
		body   string
		err    string
	}{
		{reason: "success", status: 201, body: success},
		{reason: "success with another 2xx, kind and version", status: 200, body: `{"apiVersion":"webhook.acme.cert-manager.io/v1alpha1","kind":"ChallengePayload","response":{"success":true}}`},
		{reason: "failure with a message", status: 201, body: `{"response":{"success":false,"status":{"status":"Failed","message":"no such zone"}}}`, err: "no such zone"},
		{reason: "failure without a status", status: 201, body: `{"response":{"success":false}}`, err: "invalid payload response, did not succeed but no result provided"},
		{reason: "failure without a message", status: 201, body: `{"response":{"success":false,"status":{}}}`, err: "invalid payload response, did not succeed but no result provided"},
		{reason: "no response", status: 201, body: `{"request":{}}`, err: "invalid payload response, did not succeed but no result provided"},
		{reason: "null", status: 201, body: `null`, err: "invalid payload response, did not succeed but no result provided"},
		{reason: "no JSON", status: 200, body: `<html>`, err: "the webhook's answer is not a ChallengePayload"},
		{reason: "a message with control characters, too long", status: 201, body: `{"response":{"status":{"message":"a\nb\u001b` + strings.Repeat("x", 600) + `"}}}`, err: "a b " + strings.Repeat("x", 508)},
		{
			reason: "not allowed", status: 403, body: statusBody(403, `cloud.acme.example.com is forbidden: User "u" cannot create resource "cloud" in API group "acme.example.com" at the cluster scope`),
			err: `cloud.acme.example.com is forbidden: User "u" cannot create resource "cloud" in API group "acme.example.com" at the cluster scope: ` +
				`bind a ClusterRole with the rule apiGroups: ["acme.example.com"], resources: ["cloud"], verbs: ["create"] to the service account that solves challenges`,
		},
		{
			reason: "an unknown group", status: 404, body: "404 page not found\n",
			err: `the server could not find the requested resource (post cloud.acme.example.com): ` +
				`no DNS webhook serves the solver "cloud" of group "acme.example.com"; see the APIService v1alpha1.acme.example.com and the solver's name`,
		},
		{
			reason: "the webhook is down", status: 503, body: "service unavailable",
			err: `the server is currently unable to handle the request (post cloud.acme.example.com): ` +
				`the DNS webhook of group "acme.example.com" cannot be reached by the API server; see the APIService v1alpha1.acme.example.com`,
		},
		{reason: "a failure inside", status: 500, body: statusBody(500, "unknown action type \"x\""), err: `unknown action type "x"`},
		{reason: "too slow for the API server", status: 504, body: statusBody(504, "Timeout: too long"), err: "Timeout: too long: the DNS webhook may still be at work; it is called again"},
		{reason: "a huge failure", status: 500, body: strings.Repeat("x", 2<<20), err: "an error on the server (\"\") has prevented the request from succeeding (post cloud.acme.example.com)"},
		{reason: "a huge success", status: 200, body: strings.Repeat(" ", 2<<20), err: `the answer of the DNS webhook of group "acme.example.com" has more than 1048576 bytes`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			c := behindAPI(t, received(make(chan call, 1), tc.status, tc.body))
			solvertest.AssertError(t, c.Call(t.Context(), group, solver, example), tc.err)
		})
	}
}

// TestNotCalled: names that are no groups or resources never become parts of a
// path.
func TestNotCalled(t *testing.T) {
	c := behindAPI(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("called: %s", r.URL) }))
	for _, tc := range []struct{ reason, group, solver, err string }{
		{"reserved", "acme.certplane.dev", "dns-account-01", `webhook.groupName: "acme.certplane.dev" is reserved for the solvers of certplane itself`},
		{"no group", "", "x", "webhook.groupName is empty: it must be the API group of the DNS webhook"},
		{"a path as the group", "../api/v1", "x", `webhook.groupName: "../api/v1" is not a valid API group`},
		{"a path as the solver", "acme.example.com", "x/../../../api", `webhook.solverName: "x/../../../api" is not a valid name of an API resource`},
		{"no solver", "acme.example.com", "", `webhook.solverName: "" is not a valid name of an API resource`},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			solvertest.AssertError(t, c.Call(t.Context(), tc.group, tc.solver, example), tc.err)
		})
	}
	nowhere, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	solvertest.AssertError(t, nowhere.Call(t.Context(), group, solver, example), `no DNS webhook of group "acme.example.com" is configured: add it to acme.dns01.webhooks`)
}

func TestSlow(t *testing.T) {
	c := behindAPI(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	solvertest.AssertError(t, c.Call(ctx, group, solver, example), `calling the DNS webhook of group "acme.example.com": no answer in time`)
}

// TestNoRedirects: credentials go to one server.
func TestNoRedirects(t *testing.T) {
	c := behindAPI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	if err := c.Call(t.Context(), group, solver, example); err == nil {
		t.Error("a redirect is a success")
	}
}

// files are those of an endpoint with client certificates, in a folder.
type files struct{ dir string }

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(f.path(name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return f.path(name)
}

// direct runs a webhook that demands client certificates of a front proxy.
func direct(t *testing.T, handler http.Handler) (address string, f files, makeClient func(name string)) {
	t.Helper()
	root, rootKey := webhooktest.NewCertificate(t, nil, nil, "front-proxy-ca", nil)
	pool := x509.NewCertPool()
	pool.AddCert(root)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	server.StartTLS()
	t.Cleanup(server.Close)
	f = files{dir: t.TempDir()}
	f.write(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return server.URL, f, func(name string) {
		cert, key := webhooktest.NewCertificate(t, root, rootKey, name, func(c *x509.Certificate) {
			c.IsCA, c.KeyUsage, c.ExtKeyUsage = false, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})
		keyPEM, err := pki.EncodePrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		f.write(t, "client.crt", pki.EncodeCertificates(cert))
		f.write(t, "client.key", keyPEM)
	}
}

// TestDirect: a webhook that is not behind our API server authenticates us as a
// front proxy, and by a token. Both may change at any time.
func TestDirect(t *testing.T) {
	calls := make(chan call, 1)
	address, f, makeClient := direct(t, received(calls, http.StatusCreated, success))
	makeClient("front-proxy-client")
	c, err := New(Config{
		Settings: []Settings{{
			GroupName: group, URL: address + "/base/", CAFile: f.path("ca.crt"),
			ClientCertFile: f.path("client.crt"), ClientKeyFile: f.path("client.key"), TokenFile: f.write(t, "token", []byte("one\n")),
		}},
		Identity: Identity{User: "system:serviceaccount:cert-manager:challenges", Groups: []string{"system:serviceaccounts", "system:authenticated"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	see := func() call {
		t.Helper()
		if err := c.Call(t.Context(), group, solver, example); err != nil {
			t.Fatal(err)
		}
		return <-calls
	}
	got := see()
	want := []string{"/base/apis/acme.example.com/v1alpha1/cloud", "front-proxy-client", "Bearer one", "system:serviceaccount:cert-manager:challenges", "system:serviceaccounts", "system:authenticated"}
	seen := append([]string{got.path, got.client, got.header.Get("Authorization"), got.header.Get("X-Remote-User")}, got.header.Values("X-Remote-Group")...)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("first call (-want +got):\n%s", diff)
	}
	makeClient("renewed")
	f.write(t, "token", []byte("two"))
	if got := see(); got.client != "renewed" || got.header.Get("Authorization") != "Bearer two" {
		t.Errorf("after a change: %q, %q", got.client, got.header.Get("Authorization"))
	}
	f.write(t, "client.key", []byte("half a k"))
	f.write(t, "token", nil)
	if got := see(); got.client != "renewed" || got.header.Get("Authorization") != "Bearer two" {
		t.Errorf("with unusable files: %q, %q", got.client, got.header.Get("Authorization"))
	}
}

// TestTokenAlone: the headers of a front proxy are not sent without its
// certificate.
func TestTokenAlone(t *testing.T) {
	calls := make(chan call, 1)
	address, f, _ := direct(t, received(calls, http.StatusCreated, success))
	settings := Settings{GroupName: group, URL: address, CAFile: f.path("ca.crt"), TokenFile: f.write(t, "token", []byte("t"))}
	c, err := New(Config{Settings: []Settings{settings}, Identity: Identity{User: "u", Groups: []string{"g"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), group, solver, example); err != nil {
		t.Fatal(err)
	}
	if got := <-calls; got.header.Get("X-Remote-User") != "" || got.header.Get("X-Remote-Group") != "" {
		t.Errorf("headers %v", got.header)
	}
}

// TestProxy: without credentials in the settings, the webhook sees the server's own
// certificate with the name of the caller, and always the latest one.
func TestProxy(t *testing.T) {
	calls := make(chan call, 1)
	status := http.StatusCreated
	address, f, makeClient := direct(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received(calls, status, success).ServeHTTP(w, r)
	}))
	var current *tls.Certificate
	c, err := New(Config{
		Settings: []Settings{{GroupName: group, URL: address, CAFile: f.path("ca.crt")}},
		Identity: Identity{User: "caller", Groups: []string{"one", "two"}},
		Proxy: func() (*tls.Certificate, error) {
			if current == nil {
				return nil, errors.New("there is none yet")
			}
			return current, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	solvertest.AssertError(t, c.Call(t.Context(), group, solver, example), `calling the DNS webhook of group "acme.example.com": there is none yet`)
	for _, name := range []string{"front-proxy-client", "renewed"} {
		makeClient(name)
		pair, err := tls.LoadX509KeyPair(f.path("client.crt"), f.path("client.key"))
		if err != nil {
			t.Fatal(err)
		}
		current = &pair
		for range 2 {
			solvertest.AssertError(t, c.Call(t.Context(), group, solver, example), "")
			got := <-calls
			if got.client != name || got.header.Get("X-Remote-User") != "caller" || strings.Join(got.header.Values("X-Remote-Group"), " ") != "one two" {
				t.Errorf("%s: the webhook sees %q, %v", name, got.client, got.header)
			}
		}
	}
	for refused, want := range map[int]string{
		401: "start it with --authentication-kubeconfig for this server, as a user who has the Role extension-apiserver-authentication-reader in kube-system",
		403: `bind a ClusterRole with the rule apiGroups: ["acme.example.com"], resources: ["cloud"], verbs: ["create"] to caller`,
	} {
		status = refused
		err := c.Call(t.Context(), group, solver, example)
		<-calls
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d: %v", refused, err)
		}
	}
}

func TestDirectRefusals(t *testing.T) {
	for status, want := range map[int]string{
		401: `the server has asked for the client to provide credentials (post cloud.acme.example.com): the DNS webhook of group "acme.example.com" does not accept the credentials in acme.dns01.webhooks`,
		403: `no: bind a ClusterRole with the rule apiGroups: ["acme.example.com"], resources: ["cloud"], verbs: ["create"] to the user of the credentials in acme.dns01.webhooks`,
		404: `the server could not find the requested resource (post cloud.acme.example.com): the server at %s has no solver "cloud" of group "acme.example.com"`,
	} {
		body := ""
		if status == 403 {
			body = statusBody(status, "no")
		}
		address, f, _ := direct(t, received(make(chan call, 1), status, body))
		c, err := New(Config{Settings: []Settings{{GroupName: group, URL: address, CAFile: f.path("ca.crt"), TokenFile: f.write(t, "token", []byte("secret"))}}})
		if err != nil {
			t.Fatal(err)
		}
		solvertest.AssertError(t, c.Call(t.Context(), group, solver, example), strings.ReplaceAll(want, "%s", address))
	}
}

// TestUnreachable: the error is the same each time, and shows no credentials.
func TestUnreachable(t *testing.T) {
	address, f, _ := direct(t, http.NotFoundHandler())
	token := f.write(t, "token", []byte("secret"))
	untrusting, err := New(Config{Settings: []Settings{{GroupName: group, URL: address, TokenFile: token}}})
	if err != nil {
		t.Fatal(err)
	}
	err = untrusting.Call(t.Context(), group, solver, example)
	solvertest.AssertError(t, err, `calling the DNS webhook of group "acme.example.com": tls: failed to verify certificate: x509: certificate signed by unknown authority`)
	closed, err := New(Config{Settings: []Settings{{GroupName: group, URL: "https://127.0.0.1:1", TokenFile: token}}})
	if err != nil {
		t.Fatal(err)
	}
	err = closed.Call(t.Context(), group, solver, example)
	solvertest.AssertError(t, err, `calling the DNS webhook of group "acme.example.com": dial 127.0.0.1:1: connect: connection refused`)
}

func TestNewRefuses(t *testing.T) {
	f := files{dir: t.TempDir()}
	bad := f.write(t, "bad", []byte("one\ntwo\n"))
	for reason, s := range map[string]Settings{
		"no token":       {GroupName: group, URL: "https://x", TokenFile: f.path("none")},
		"two lines":      {GroupName: group, URL: "https://x", TokenFile: bad},
		"no certificate": {GroupName: group, URL: "https://x", CAFile: bad, TokenFile: f.write(t, "token", []byte("t"))},
		"no key":         {GroupName: group, URL: "https://x", ClientCertFile: bad, ClientKeyFile: bad},
		"no credentials": {GroupName: group, URL: "https://x"},
	} {
		_, err := New(Config{Settings: []Settings{s}})
		if err == nil || !strings.HasPrefix(err.Error(), "acme.dns01.webhooks[0].") || strings.Contains(err.Error(), "two") {
			t.Errorf("%s: error %v", reason, err)
		}
	}
}

func TestSettings(t *testing.T) {
	good := Settings{GroupName: group, URL: "https://webhook.example.com:8443", TokenFile: "/t"}
	for _, tc := range []struct {
		reason string
		change func(*Settings)
		err    string
	}{
		{reason: "good", change: func(*Settings) {}},
		{reason: "no group", change: func(s *Settings) { s.GroupName = "" }, err: "w.groupName: is missing"},
		{reason: "the group of our providers", change: func(s *Settings) { s.GroupName = certmanager.ProviderGroup }, err: `w.groupName: "dns.certplane.dev" is reserved for the solvers of certplane itself`},
		{reason: "our own group", change: func(s *Settings) { s.GroupName = certmanager.ReservedGroup }, err: `w.groupName: "acme.certplane.dev" is reserved for the solvers of certplane itself`},
		{reason: "no group's name", change: func(s *Settings) { s.GroupName = "A/b" }, err: `w.groupName: "A/b" is not a valid API group`},
		{reason: "no url", change: func(s *Settings) { s.URL = "" }, err: "w.url: is missing"},
		{reason: "http", change: func(s *Settings) { s.URL = "http://x" }, err: `w.url: "http://x" must begin with https://`},
		{reason: "a password", change: func(s *Settings) { s.URL = "https://u:p@x" }, err: "w.url: must not have a user or a password: use tokenFile"},
		{reason: "a certificate without a key", change: func(s *Settings) { s.ClientCertFile = "/c" }, err: "w.clientCertFile and w.clientKeyFile: set both or none"},
		{reason: "no credentials", change: func(s *Settings) { s.TokenFile = "" }},
	} {
		s := good
		tc.change(&s)
		solvertest.AssertError(t, s.Validate("w"), tc.err)
	}
}
