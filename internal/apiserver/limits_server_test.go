package apiserver_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
)

const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// While all places for writes are taken, a write is told to come again;
// watches go on and administrators get through.
func TestTooManyRequests(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.API.Limits.MaxWriting, c.API.Limits.MaxReading = 1, 1 })
	s.Grant(t, "alice", apitest.Allow("create watch", "certificatesigningrequests"))
	alice := s.Login(t, "alice")
	alice.NextProtos = []string{"http/1.1"} // a connection for each request
	client := httpClient(t, alice)
	first, second := watchRequests(t, alice), watchRequests(t, alice)

	release := holdWrite(t, client, s.URL)
	response, err := client.Post(s.URL+requestsPath, "application/json", bytes.NewReader([]byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Errorf("one write too many got %s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
	admin := apitest.Client(t, s.Admin(t))
	apitest.Create(t, admin, apitest.NewCSR(t, "seen", "example.com/x", pki.Subject{}, apitest.NewKey(t)))
	for _, events := range []<-chan string{first, second} {
		if name := <-events; name != "seen" {
			t.Errorf("a watch delivers %q, want the request made meanwhile", name)
		}
	}

	release()
	apitest.Eventually(t, "the place is free again", func() bool {
		response, err := client.Post(s.URL+requestsPath, "application/json", bytes.NewReader([]byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode == http.StatusUnprocessableEntity
	})
}

// A request that takes too long ends, and says why.
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
}

// holdWrite begins a write and returns when the server works on it. The
// returned function ends it.
func holdWrite(t *testing.T, client *http.Client, url string) (release func()) {
	t.Helper()
	working := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(working) }})
	body, hold := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+requestsPath, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	done := make(chan error, 1)
	go func() {
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		done <- err
	}()
	select {
	case <-working:
	case err := <-done:
		t.Fatalf("the write that was to be held ended: %v", err)
	}
	return func() {
		hold.Close()
		if err := <-done; err != nil {
			t.Errorf("the held write failed: %v", err)
		}
	}
}

// watchRequests delivers the names of the requests made from now on.
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
