package crash

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/store/datadir"
)

// frontURL is the beginning of all URLs that ACME clients of the replicas are given. A
// balancer knows where they lead.
const frontURL = "https://acme.corp.example"

var ordersFlag = flag.Int("acme-orders", 60, "how many orders TestOrdersWithoutAffinity places")

// replicas are two servers of one store that both answer ACME clients, and a web server in
// this process that answers their validations, at any address of 127.0.0.0/8.
type replicas struct {
	*testing.T
	store    *host
	servers  []*host
	acme     *acmetest.World
	balancer *balancer
	// answers has what the web server answers to validations, by their path.
	answers sync.Map
	// held, if not nil, is closed when validations are to be answered.
	held atomic.Pointer[chan struct{}]
	// asked counts validations.
	asked atomic.Int64
}

// newReplicas starts two servers. etcdOf returns where server i finds the store.
func newReplicas(t *testing.T, etcdOf func(i int, endpoint string) string) *replicas {
	t.Helper()
	endpoint := "http://" + apitest.FreeAddress(t)
	r := &replicas{T: t, store: &host{role: role{Dir: shortDir(t), Listen: endpoint}, server: -1}}
	r.store.process = startReady(t, r.store.role)
	var fronts []string
	for i := range 2 {
		h := &host{role: role{Dir: shortDir(t), Etcd: etcdOf(i, endpoint), Lease: lease, Front: ownAddress(t)}, server: i}
		if i > 0 {
			sharePKI(t, r.servers[0].role.Dir, h.role.Dir)
		}
		h.process = startReady(t, h.role)
		r.servers, fronts = append(r.servers, h), append(fronts, h.role.Front)
	}
	r.balancer = newBalancer(t, fronts)
	r.declare()
	return r
}

// declare stores an endpoint whose orders are approved by right, and waits until both
// servers know it.
func (r *replicas) declare() {
	r.Helper()
	web, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		r.Fatal(err)
	}
	site := &http.Server{ReadHeaderTimeout: timeout, Handler: http.HandlerFunc(r.validated)}
	go func() { _ = site.Serve(web) }()
	r.Cleanup(func() { site.Close() })
	r.acme = acmetest.New(r.T, r.api(0), func(e *v1alpha1.AcmeEndpoint, k *v1alpha1.AcmeExternalKey) {
		e.Annotations = map[string]string{v1alpha1.AcmeAllowLocalAnnotation: "true"}
		e.Spec.Accounts.Admission = v1alpha1.AcmeAdmissionOpen
		e.Spec.Accounts.ServiceAccount = &v1alpha1.AcmeServiceAccount{Namespace: k.Namespace, Name: acmetest.ServiceAccount}
		e.Spec.Identifiers.IP = &v1alpha1.AcmeAddresses{Allow: []string{"127.0.0.0/8"}}
		e.Spec.Challenges.HTTP01.Ports = []int32{int32(web.Addr().(*net.TCPAddr).Port)}
		e.Spec.Challenges.Networks.Allow = []string{"127.0.0.0/8"}
		e.Spec.Challenges.Types = []string{rfc8555.ChallengeHTTP01}
	})
	r.acme.AutoApprove()
	for i := range r.servers {
		apitest.Eventually(r, "the endpoint is served", func() bool { return r.balancer.only(i).try(r.directory()) })
	}
}

// api is how the objects of a server are read and written.
func (r *replicas) api(i int) *apitest.Server {
	return &apitest.Server{Kubeconfig: datadir.Dir(r.servers[i].role.Dir).AdminKubeconfig()}
}

func (r *replicas) directory() string { return frontURL + "/acme/" + r.acme.Namespace + "/directory" }

// validated answers a validation.
func (r *replicas) validated(w http.ResponseWriter, request *http.Request) {
	r.asked.Add(1)
	if held := r.held.Load(); held != nil {
		select {
		case <-*held:
		case <-request.Context().Done():
			return
		}
	}
	answer, known := r.answers.Load(request.URL.Path)
	if !known {
		http.NotFound(w, request)
		return
	}
	_, _ = io.WriteString(w, answer.(string))
}

// balancer passes each request on to the next server that can be connected to, without
// affinity.
type balancer struct {
	servers []*http.Transport
	next    atomic.Int64
	// answered counts answers, and badNonces those with that problem.
	answered, badNonces atomic.Int64
}

func newBalancer(t *testing.T, addresses []string) *balancer {
	b := &balancer{}
	for _, address := range addresses {
		dialer := &net.Dialer{}
		transport := &http.Transport{
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
			MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
		}
		t.Cleanup(transport.CloseIdleConnections)
		b.servers = append(b.servers, transport)
	}
	return b
}

// only returns a balancer of one server.
func (b *balancer) only(i int) *balancer { return &balancer{servers: b.servers[i : i+1]} }

// try reports whether a URL is served.
func (b *balancer) try(url string) bool {
	answer, err := (&http.Client{Transport: b, Timeout: timeout}).Get(url)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(request *http.Request) (*http.Response, error) {
	first := b.next.Add(1)
	for i := range b.servers {
		to := b.servers[(int(first)+i)%len(b.servers)]
		if i > 0 && request.GetBody != nil {
			request = request.Clone(request.Context())
			request.Body, _ = request.GetBody()
		}
		answer, err := to.RoundTrip(request)
		var at *net.OpError
		if err != nil && errors.As(err, &at) && at.Op == "dial" {
			continue
		}
		if err != nil {
			return nil, err
		}
		return b.count(answer)
	}
	return nil, errors.New("no server is there")
}

func (b *balancer) count(answer *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	b.answered.Add(1)
	if bytes.Contains(body, []byte(rfc8555.ProblemBadNonce)) {
		b.badNonces.Add(1)
	}
	return answer, nil
}

// register makes an account, and returns its client.
func (r *replicas) register() *acme.Client {
	r.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.Fatal(err)
	}
	c := &acme.Client{
		Key: key, HTTPClient: &http.Client{Transport: r.balancer}, DirectoryURL: r.directory(),
		RetryBackoff: func(int, *http.Request, *http.Response) time.Duration { return 10 * time.Millisecond },
	}
	if _, err := c.Register(r.Context(), &acme.Account{}, acme.AcceptTOS); err != nil {
		r.Fatal(err)
	}
	return c
}

// address returns an address of the web server.
func address(n int) string { return fmt.Sprintf("127.%d.%d.%d", 1+n>>16&127, n>>8&255, n&255) }

// prove places an order for an address, and has it validated.
func (r *replicas) prove(ctx context.Context, c *acme.Client, address string) (*acme.Order, error) {
	order, err := c.AuthorizeOrder(ctx, acme.IPIDs(address))
	if err != nil {
		return nil, fmt.Errorf("placing the order: %w", err)
	}
	return r.proveOrder(ctx, c, order)
}

// proveOrder has an order validated, and returns its state afterwards.
func (r *replicas) proveOrder(ctx context.Context, c *acme.Client, order *acme.Order) (*acme.Order, error) {
	for _, url := range order.AuthzURLs {
		authz, err := c.GetAuthorization(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("reading the authorization: %w", err)
		}
		challenge := authz.Challenges[0]
		answer, err := c.HTTP01ChallengeResponse(challenge.Token)
		if err != nil {
			return nil, err
		}
		r.answers.Store(c.HTTP01ChallengePath(challenge.Token), answer)
		if _, err := c.Accept(ctx, challenge); err != nil {
			return nil, fmt.Errorf("starting the challenge: %w", err)
		}
		if err := validated(ctx, c, url); err != nil {
			return nil, fmt.Errorf("waiting for the authorization: %w", err)
		}
	}
	// No answer, from either server, shows all authorizations valid and the order pending.
	latest, err := c.GetOrder(ctx, order.URI)
	if err == nil && latest.Status == acme.StatusPending {
		err = errors.New("all authorizations are valid, and the order is pending")
	}
	return latest, err
}

// validated waits until an authorization is valid. The library would wait for as long
// as the server says.
func validated(ctx context.Context, c *acme.Client, url string) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		authz, err := c.GetAuthorization(ctx, url)
		if err == nil && authz.Status != acme.StatusValid && authz.Status != acme.StatusPending {
			err = fmt.Errorf("the authorization is %s", authz.Status)
		}
		return err == nil && authz.Status == acme.StatusValid, err
	})
}

// finish has the certificate issued for an order that is ready.
func (r *replicas) finish(ctx context.Context, c *acme.Client, order *acme.Order) (*x509.Certificate, error) {
	ip := net.ParseIP(order.Identifiers[0].Value)
	csr, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{IPAddresses: []net.IP{ip}}, apitest.NewKey(r))
	if err != nil {
		return nil, err
	}
	chain, _, err := c.CreateOrderCert(ctx, order.FinalizeURL, csr, false)
	if err != nil {
		return nil, fmt.Errorf("finalizing the order: %w", err)
	}
	return x509.ParseCertificate(chain[0])
}

// Clients that reach another server with each request get all their certificates, and
// hardly ever have to repeat a request. Without calls between the servers, every
// second one would be.
func TestOrdersWithoutAffinity(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, func(_ int, endpoint string) string { return endpoint })
	const clients = 4
	r.warm()
	var group sync.WaitGroup
	for i := range clients {
		c := r.register()
		group.Go(func() {
			for n := range *ordersFlag / clients {
				order, err := r.prove(t.Context(), c, address(i<<16+n))
				if err == nil {
					_, err = r.finish(t.Context(), c, order)
				}
				if err != nil {
					t.Errorf("client %d, order %d: %v", i, n, err)
					return
				}
			}
		})
	}
	group.Wait()
	answered, bad := r.balancer.answered.Load(), r.balancer.badNonces.Load()
	t.Logf("%d of %d answers were badNonce", bad, answered)
	if bad*100 > answered {
		t.Errorf("%d of %d answers were badNonce", bad, answered)
	}
}

// warm returns when the servers know each other.
func (r *replicas) warm() {
	r.Helper()
	c := r.register()
	apitest.Eventually(r, "the servers know each other", func() bool {
		before := r.balancer.badNonces.Load()
		for range 6 {
			if _, err := c.GetReg(r.Context(), ""); err != nil {
				return false
			}
		}
		return r.balancer.badNonces.Load() == before
	})
	r.balancer.answered.Store(0)
	r.balancer.badNonces.Store(0)
}
