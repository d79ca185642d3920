package apiserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// While all places are taken, an additional request is told to retry. Watches
// continue, administrators and the server's own controllers get through, and
// probes are answered.
func TestTooManyRequests(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) {
		c.API.Limits.MaxWriting, c.API.Limits.MaxReading, c.API.Limits.MaxOpenPerTenant = 1, 1, 2
	})
	admin := apitest.Client(t, s.Admin(t))
	clients := map[string]kubernetes.Interface{}
	for _, name := range []string{"alice", "bob"} {
		s.Grant(t, name, apitest.Allow("create watch", "certificatesigningrequests"))
		cfg := s.Login(t, name)
		cfg.QPS = -1
		clients[name] = apitest.Client(t, cfg)
	}
	events := watchRequests(t, s.Login(t, "alice"))
	held, release := holdRequest(t, admin, "first")

	create := func(user, name string) <-chan error {
		csr := apitest.NewCSR(t, name, "example.com/x", pki.Subject{}, apitest.NewKey(t))
		done := make(chan error, 1)
		go func() {
			_, err := clients[user].CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{})
			done <- err
		}()
		return done
	}
	first := create("alice", "first")
	<-held // in the only place
	second := create("alice", "second")
	apitest.Eventually(t, "the second request waits", func() bool {
		return metric(t, admin, `certplane_apiserver_waiting_requests{class="user",kind="writing"}`) == "1"
	})

	request := []byte("{}")
	got := world{s, admin}.send(t, s.Login(t, "alice"), call{path: requestsPath, header: map[string]string{"Content-Type": jsonType}, body: request})
	if got.code != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" || !strings.Contains(string(got.body), "alice may have 2 requests under way at the same time (api.limits.maxOpenPerTenant)") {
		t.Errorf("a request too many got %d %s", got.code, got.body)
	}
	third := create("bob", "third") // waits, because alice has the place
	world{s, admin}.wantHealthy(t)
	if name := <-events; !strings.HasPrefix(name, "healthy-") {
		t.Errorf("a watch delivers %q, want the request made meanwhile", name)
	}
	kubelet := apitest.NewCSR(t, "kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName,
		pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}, apitest.NewKey(t))
	kubelet.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	apitest.Issued(t, admin, apitest.Create(t, admin, kubelet)) // controllers in the process approve and sign

	release()
	for name, done := range map[string]<-chan error{"first": first, "second": second, "third": third} {
		if err := <-done; err != nil {
			t.Errorf("the %s request failed: %v", name, err)
		}
	}
}

// holdRequest makes the server process a write of the request of this name
// until release is called. held is closed when it processes it.
func holdRequest(t *testing.T, admin kubernetes.Interface, name string) (held <-chan struct{}, release func()) {
	t.Helper()
	asked, working, released := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	url, ca := apitest.Webhook(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		if review.Request.Name == name {
			close(working)
			<-released
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hold.example.com"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "hold.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"certificates.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{requests}},
			}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To(int32(30)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	if _, err := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the webhook is asked", func() bool {
		csr := apitest.NewCSR(t, "try", "example.com/x", pki.Subject{}, apitest.NewKey(t))
		if _, err := admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Fatal(err)
		}
		return len(asked) == 1
	})
	return working, release
}

// metric returns the value of a line of /metrics.
func metric(t *testing.T, admin kubernetes.Interface, name string) string {
	t.Helper()
	text, err := admin.CertificatesV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Clients that send or read nothing delay only themselves, whatever their
// tenant.
func TestLimitsOfOneTenant(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) {
		l := &c.API.Limits
		l.MaxReading, l.MaxWriting, l.MaxPerTenant, l.MaxOpenPerTenant = 2, 2, 1, 3
		l.MaxWatchesPerTenant, l.MaxBodyMiB, l.MaxBodyMiBPerTenant = 1, 1, 1
		l.BodyTimeout = metav1.Duration{Duration: time.Second}
	})
	s.Grant(t, "alice", apitest.Allow("create list watch", requests))
	w := world{s, apitest.Client(t, s.Admin(t))}
	t.Run("bodies that do not end", w.testHeldBodies)
	t.Run("large bodies", w.testLargeBodies)
	t.Run("answers that are not taken", w.testHeldAnswers)
	t.Run("watches", w.testManyWatches)
	t.Run("queries", w.testAnonymousQuery)
	t.Run("headers", w.testLargeHeaders)
}

// dialHTTP2 opens a connection from which nothing is read.
func (w world) dialHTTP2(t *testing.T, cfg *rest.Config) *apitest.HTTP2 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := apitest.DialHTTP2(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func open(t *testing.T, conn *apitest.HTTP2, method, path, body string, header ...string) *apitest.Stream {
	t.Helper()
	stream, err := conn.Open(method, path, body != "", header...)
	if err == nil && body != "" {
		err = stream.Send([]byte(body))
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// statusOf waits for the status of a response.
func statusOf(stream *apitest.Stream) string {
	select {
	case status := <-stream.Status:
		return status
	case <-stream.Reset:
		return "no answer"
	}
}

// wantAlice: alice, who is another tenant, can read and write.
func (w world) wantAlice(t *testing.T) {
	t.Helper()
	alice := apitest.Client(t, w.Login(t, "alice"))
	if _, err := alice.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("alice cannot read: %v", err)
	}
	csr := newCSR(t, "")
	csr.GenerateName = "alice-"
	apitest.Create(t, alice, csr)
	w.wantHealthy(t)
}

const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

func (w world) testHeldBodies(t *testing.T) {
	conn := w.dialHTTP2(t, w.Login(t, "mallory"))
	var held []*apitest.Stream
	for range 3 {
		held = append(held, open(t, conn, http.MethodPost, reviewPath, "{", "content-type", jsonType, "content-length", "1000"))
	}
	w.wantAlice(t)
	for _, stream := range held {
		if status := statusOf(stream); status != "408" && status != "429" {
			t.Errorf("a body that does not end got %s", status)
		}
	}
}

func (w world) testLargeBodies(t *testing.T) {
	conn := w.dialHTTP2(t, w.Login(t, "mallory"))
	large := strings.Repeat(" ", 700<<10)
	for range 2 {
		open(t, conn, http.MethodPost, reviewPath, large, "content-type", jsonType)
	}
	w.wantAlice(t)
	refused := `certplane_apiserver_refused_requests_total{class="user",setting="maxBodyMiB"}`
	if metric(t, w.admin, refused) == "" {
		t.Error("bodies of more than their tenant may have are not refused")
	}
}

func (w world) testHeldAnswers(t *testing.T) {
	conn := w.dialHTTP2(t, w.Login(t, "mallory"))
	for range 3 {
		if status := statusOf(open(t, conn, http.MethodGet, "/openapi/v2", "")); status != "200" {
			t.Fatalf("got %s", status)
		}
	}
	if status := statusOf(open(t, conn, http.MethodGet, "/openapi/v2", "")); status != "429" {
		t.Errorf("one request more than a tenant may have open got %s", status)
	}
	w.wantAlice(t)
}

func (w world) testManyWatches(t *testing.T) {
	alice := w.dialHTTP2(t, w.Login(t, "alice"))
	for _, want := range []string{"200", "429"} {
		if status := statusOf(open(t, alice, http.MethodGet, requestsPath+"?watch=true", "")); status != want {
			t.Errorf("a watch got %s, want %s", status, want)
		}
	}
	w.wantAlice(t)
}

// testAnonymousQuery: a client without credentials cannot make the server send
// responses of any size.
func (w world) testAnonymousQuery(t *testing.T) {
	query := "?verbose&exclude=" + strings.Repeat("A", 300)
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/version"} {
		if got := w.send(t, w.Anonymous(t), call{path: path + query}); got.code != http.StatusRequestURITooLong || strings.Contains(string(got.body), "AAA") {
			t.Errorf("%s with a long query: %d %s", path, got.code, got.body)
		}
		if got := w.send(t, w.Anonymous(t), call{path: path + "?verbose&exclude=ping"}); got.code != http.StatusOK {
			t.Errorf("%s with a short query: %d %s", path, got.code, got.body)
		}
	}
	if got := w.send(t, w.Admin(t), call{path: "/livez" + query}); got.code != http.StatusOK {
		t.Errorf("an administrator's long query: %d %s", got.code, got.body)
	}
}

func (w world) testLargeHeaders(t *testing.T) {
	conn := w.dialHTTP2(t, w.Anonymous(t))
	stream := open(t, conn, http.MethodGet, "/livez", "", "x", strings.Repeat("x", 200<<10))
	if status := statusOf(stream); status != "431" {
		t.Errorf("large headers got %s", status)
	}
}

// A request that takes too long ends with an error that explains it.
func TestRequestTimeout(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.API.Limits.RequestTimeout = metav1.Duration{Duration: time.Second} })
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			cfg := s.Admin(t)
			cfg.NextProtos = []string{protocol}
			body, hold := io.Pipe()
			defer hold.Close()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+requestsPath, body)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := httpClient(t, cfg).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusGatewayTimeout {
				t.Errorf("a request without an end got %s", response.Status)
			}
		})
	}
	t.Run("an answer that nobody takes", func(t *testing.T) {
		conn := world{Server: s}.dialHTTP2(t, s.Admin(t))
		var stream *apitest.Stream
		apitest.Eventually(t, "the document is made, which can take longer than a request may", func() bool {
			stream = open(t, conn, http.MethodGet, "/openapi/v2", "")
			return statusOf(stream) == "200"
		})
		<-stream.Reset
	})
}

// watchRequests sends the names of the requests created from now on.
func watchRequests(t *testing.T, cfg *rest.Config) <-chan string {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	watch, err := client.CertificatesV1().CertificateSigningRequests().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 1)
	go func() {
		for event := range watch.ResultChan() {
			if csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok {
				names <- csr.Name
				return
			}
		}
		close(names)
	}()
	return names
}

func httpClient(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config, ExpectContinueTimeout: time.Minute, ForceAttemptHTTP2: slices.Contains(cfg.NextProtos, "h2")}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
