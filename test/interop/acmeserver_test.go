package interop

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/acme"
	"golang.org/x/net/dns/dnsmessage"
)

// acmeURL is the beginning of all URLs of the ACME server. Each connection of a client
// to it is to the next replica.
const acmeURL = "https://acme.corp.example"

// acmeSettings is the configuration of a process of the ACME server.
const acmeSettings = `apiVersion: config.certplane.dev/v1alpha1
kind: ControllersConfiguration
acmeServer: {listen: "%s", externalURL: "` + acmeURL + `"}
`

// acmeObjects are an endpoint whose ServiceAccount needs an approval, and a policy that
// approves names proven by http-01. The web server is on this host.
const acmeObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: acme-clients}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: acme-clients, name: corp}
---
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: hosts}
spec:
  signerName: corp.example/hosts
  requests: [CertificateSigningRequest]
  ca: {generated: {commonName: Hosts of corp.example}}
  profile:
    names: {dnsNames: request.dnsNames}
    usages: [digital signature, server auth]
    keyTypes: [ECDSAP256]
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: acme-by-http}
spec:
  effect: Allow
  match:
    signers: [corp.example/hosts]
    origins: [ACME]
    conditions:
    - name: by-http
      expression: acme.endpoint == "corp" && acme.identifiers.all(i, i.method == "http-01")
  certificate:
    names: {dns: {patterns: [web.corp.example]}}
    usages: {allowed: [digital signature, server auth]}
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata: {name: corp, annotations: {acme.certplane.dev/allow-local: "true"}}
spec:
  accounts:
    admission: Open
    serviceAccount: {namespace: acme-clients, name: corp}
  identifiers:
    dns: {allow: ["*.corp.example"]}
  challenges:
    types: [http-01]
    http01: {ports: [%s]}
    dns: {servers: ["%s"]}
    networks: {allow: [127.0.0.0/8]}
  profiles:
  - name: server
    signer: {name: corp.example/hosts}
    usages: [digital signature, server auth]
`

// The ACME server works in a real kube-apiserver with what "certplane manifests" prints,
// and with no other rights: a client whose connections are to two replicas in turn gets
// certificates that a policy approves.
func TestACMEServerInCluster(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "installed.yaml")
	write(t, settings, fmt.Sprintf(acmeSettings, ":9443"))
	c := startCluster(t, "--config", settings)
	var fronts, webhooks []string
	var replicas []*replica
	for i := range 2 {
		fronts, webhooks = append(fronts, freeAddress(t)), append(webhooks, freeAddress(t))
		own := filepath.Join(c.dir, fmt.Sprintf("acme-%d.yaml", i))
		write(t, own, fmt.Sprintf(acmeSettings, fronts[i])+"webhook: {serve: Always}\n") // outside of pods, nothing is served for the API by default
		replicas = append(replicas, c.controllers(t, "--config", own, "--webhook-bind-address", webhooks[i]))
	}
	eventually(t, "the API knows whom to trust", func() bool { return len(c.bundles(t)) > 0 })
	c.reachWebhook(t, webhooks[1])
	eventually(t, "the certificate has the new address", func() bool { return serves(t, webhooks[1]).VerifyHostname("127.0.0.1") == nil })

	web := startWeb(t)
	c.certplane(t, fmt.Sprintf(acmeObjects, web.port, startNames(t)), "kubectl", "--kubeconfig", c.admin, "apply", "-f", "-")
	c.certplane(t, "", "acme", "allow", "-n", "acme-clients", "corp", "--endpoint", "corp", "--apply", "--kubeconfig", c.admin)
	for _, of := range []string{"acmeendpoints", "certificatepolicies"} {
		c.kubectl(t, "wait", "--for=condition=Ready", of, "--all", "--timeout=60s")
	}
	c.testACMEStranger(t)
	client := &acme.Client{DirectoryURL: acmeURL + "/acme/corp/directory", Key: newECKey(t), HTTPClient: inTurn(fronts)}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel() // the client repeats requests without end
	if _, err := client.Register(ctx, &acme.Account{}, acme.AcceptTOS); err != nil {
		t.Fatal(err)
	}
	leaf := c.orderOnce(t, client, web, "web.corp.example")
	if leaf.VerifyHostname("web.corp.example") != nil || leaf.Issuer.CommonName != "Hosts of corp.example" {
		t.Errorf("the certificate is for %v, of %s", leaf.DNSNames, leaf.Issuer)
	}
	c.kubectl(t, "wait", "--for=jsonpath={.status.state}=valid", "acmeorders", "--all", "-n", "acme-clients", "--timeout=10s")
	said := c.kubectl(t, "get", "csr", "-o", `jsonpath={range .items[*]}{.spec.signerName} {.spec.username} {.status.conditions[?(@.type=="Approved")].reason} {.status.conditions[?(@.type=="Approved")].message}{"\n"}{end}`)
	if !strings.Contains(said, "corp.example/hosts system:serviceaccount:acme-clients:corp ") || !strings.Contains(said, "acme-by-http") {
		t.Errorf("the request was not approved by the policy:\n%s", said)
	}
	if err := client.RevokeCert(ctx, nil, leaf.Raw, acme.CRLReasonSuperseded); err != nil {
		t.Error(err)
	}

	// The leader is killed; the other one goes on.
	leads, other := 0, 1
	if !strings.Contains(replicas[0].output.tail(1<<20), "The controllers work here from now on") {
		leads, other = 1, 0
	}
	c.reachWebhook(t, webhooks[other])
	replicas[leads].kill()
	client.HTTPClient = inTurn(fronts[other : other+1])
	c.orderOnce(t, client, web, "web.corp.example")
	for i, r := range replicas {
		if said := r.output.tail(8 << 20); strings.Contains(said, "forbidden") || strings.Contains(said, "cannot ") {
			t.Errorf("replica %d lacks a right", i)
		}
	}
}

// acmeStranger may create the ACME server's objects, as a user's role could allow, but
// does not have the verb serve.
const acmeStranger = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: stranger}
rules: [{apiGroups: [certplane.dev], resources: [acmeaccounts, acmeorders], verbs: [create]}]
`

// testACMEStranger checks that only the ACME server can write the objects that prove a
// request.
func (c *cluster) testACMEStranger(t *testing.T) {
	t.Helper()
	c.certplane(t, acmeStranger, "kubectl", "--kubeconfig", c.admin, "apply", "-f", "-")
	c.bind(t, "stranger", "stranger")
	const path = "/apis/certplane.dev/v1alpha1/"
	for resource, body := range map[string]string{
		path + "acmeaccounts":                       `{"apiVersion":"certplane.dev/v1alpha1","kind":"AcmeAccount","metadata":{"name":"a"},"spec":{"endpoint":"corp","serviceAccount":{"namespace":"acme-clients","name":"corp"}}}`,
		path + "namespaces/acme-clients/acmeorders": `{"apiVersion":"certplane.dev/v1alpha1","kind":"AcmeOrder","metadata":{"name":"o"},"spec":{"endpoint":"corp","account":"a","profile":"server","identifiers":[{"type":"dns","value":"a.corp.example"}]}}`,
	} {
		const want = `needs the verb "serve" on acmeendpoints "corp" of certplane.dev`
		var message string
		eventually(t, "the stranger may try", func() bool {
			got := c.do(t, call{method: http.MethodPost, path: resource, body: body, user: "stranger"})
			message, _ = got.object(t)["message"].(string)
			return got.Code != http.StatusForbidden || strings.Contains(message, "webhook")
		})
		if !strings.Contains(message, want) {
			t.Errorf("%s: %q, want %q", resource, message, want)
		}
	}
}

// inTurn is a client each of whose requests is at the next address.
func inTurn(addresses []string) *http.Client {
	var next atomic.Uint32
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // how it comes to trust the server is another test's
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addresses[int(next.Add(1))%len(addresses)])
		},
	}}
}

// orderOnce gets a certificate for a name by http-01.
func (c *cluster) orderOnce(t *testing.T, client *acme.Client, web *web, name string) *x509.Certificate {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	fail := func(doing string, err error) {
		t.Helper()
		t.Fatalf("%s: %v\n%s", doing, err, c.kubectl(t, "get", "acmeorders,csr,events", "-A", "-o", "wide"))
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(name))
	if err != nil {
		fail("ordering", err)
	}
	authz, err := client.GetAuthorization(ctx, order.AuthzURLs[0])
	if err != nil {
		fail("reading the authorization", err)
	}
	answer, err := client.HTTP01ChallengeResponse(authz.Challenges[0].Token)
	if err != nil {
		t.Fatal(err)
	}
	web.answer.Store(&answer)
	if _, err := client.Accept(ctx, authz.Challenges[0]); err != nil {
		fail("accepting the challenge", err)
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		fail("waiting for the challenge", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, newECKey(t))
	if err != nil {
		t.Fatal(err)
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, csr, false)
	if err != nil {
		fail("finalizing", err)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// web is a web server on this host. It answers everything with one text.
type web struct {
	port   string
	answer atomic.Pointer[string]
}

func startWeb(t *testing.T) *web {
	t.Helper()
	w := &web{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, w.port = splitAddress(t, listener.Addr().String())
	server := &http.Server{ReadHeaderTimeout: timeout, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, *w.answer.Load()) })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return w
}

// startNames runs a DNS server that resolves every name to 127.0.0.1, and returns its
// address.
func startNames(t *testing.T) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buffer := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var message dnsmessage.Message
			if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
				continue
			}
			q := message.Questions[0]
			message.Response, message.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				message.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if answer, err := message.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}
