package apiserver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// The trace of a request shows how long etcd took for it.
func TestTracing(t *testing.T) {
	spans := &spans{}
	endpoint := collect(t, spans)
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\nendpoint: " + endpoint + "\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := apitest.Start(t, func(c *server.Config) { c.Tracing.ConfigFile = file })
	if _, err := apitest.Client(t, s.Admin(t)).CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, span := range []string{"GET " + requestsPath, "etcdserverpb.KV/Range"} {
		apitest.Eventually(t, "the collector has a span "+span, func() bool { return spans.have(span) })
	}
}

// collect runs an OpenTelemetry collector.
func collect(t *testing.T, into *spans) (endpoint string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, into)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

type spans struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex // guards names
	names []string
}

func (s *spans) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names = append(s.names, span.Name)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (s *spans) have(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, got := range s.names {
		if got == name {
			return true
		}
	}
	return false
}
