package listener

import (
	"context"
	"net"
	"net/http"
	"strings"

	"k8s.io/klog/v2"
)

// serveRoots serves the roots of the certificate by plain HTTP: clients that fetch them
// have no trust anchor yet, and must compare a fingerprint.
func (s *Server) serveRoots(ctx context.Context, inner net.Listener) error {
	server, bounded := s.bounded(inner, s.withAddress(s.rootsAlone(s.Handler)))
	klog.FromContext(ctx).Info("Serving the roots for ACME clients by plain HTTP", "address", inner.Addr().String())
	return untilEnd(ctx, server, func() error { return server.Serve(bounded) })
}

// rootsAlone passes on requests for roots only: all other resources of the ACME server
// need TLS (RFC 8555 section 6.1).
func (s *Server) rootsAlone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint, isRoots := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/acme/"), "/roots.pem")
		switch {
		case !strings.HasPrefix(r.URL.Path, "/acme/") || !isRoots || endpoint == "" || strings.Contains(endpoint, "/"):
			http.Error(w, "only the roots of the ACME server are served here, at /acme/ENDPOINT/roots.pem; use HTTPS for everything else, at "+s.settings.ExternalURL, http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the roots can only be read", http.StatusMethodNotAllowed)
		case s.current.Load() == nil:
			w.Header().Set("Retry-After", "10")
			http.Error(w, "the server has no certificate yet", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
