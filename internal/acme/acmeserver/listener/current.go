package listener

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/klog/v2"
)

// identity is a certificate and the roots that clients verify it with.
type identity struct {
	certificate *tls.Certificate
	trust       Trust
}

// Use sets the certificate for new connections, and the roots that clients verify it with.
func (s *Server) Use(certificate *tls.Certificate, trust Trust) {
	s.use(&identity{certificate, trust})
}

func (s *Server) use(next *identity) {
	before := s.current.Swap(next)
	if before == nil || string(before.trust.PEM()) != string(next.trust.PEM()) {
		s.changes.Tell(struct{}{})
	}
}

// Subscribe registers changed, which is called when the roots change, when the first
// certificate is there, and when the next certificate waits for something else.
func (s *Server) Subscribe(changed func(struct{})) (cancel func()) {
	return s.changes.Subscribe(changed)
}

// Trust returns the roots that clients verify the certificate with. It is empty if they
// are not known.
func (s *Server) Trust() Trust {
	if current := s.current.Load(); current != nil {
		return current.trust
	}
	return Trust{}
}

// Wait logs what the next certificate waits for, once for each reason. An empty reason
// means that it waits for nothing.
func (s *Server) Wait(reason string) {
	before := s.waiting.Swap(&reason)
	if before != nil && *before == reason || before == nil && reason == "" {
		return
	}
	if reason != "" {
		klog.InfoS("The certificate for ACME clients is not there yet", "waitingFor", reason, "former", s.current.Load() != nil)
	}
	s.changes.Tell(struct{}{})
}

// NextWaitsFor returns what the certificate after the current one waits for; empty if it
// waits for nothing, or none is requested.
func (s *Server) NextWaitsFor() string {
	if reason := s.waiting.Load(); reason != nil && s.current.Load() != nil {
		return *reason
	}
	return ""
}

// WaitsFor returns what the first certificate waits for; empty if there is one.
func (s *Server) WaitsFor() string {
	if s.current.Load() != nil {
		return ""
	}
	if reason := s.waiting.Load(); reason != nil && *reason != "" {
		return *reason
	}
	return "its Secret to be read"
}

var errNoCertificate = errors.New("there is no certificate yet")

// Ready is a probe. Without a certificate no request can be answered, but a process whose
// certificate waits for people is fit for its other work: WaitsFor returns the reason.
func (s *Server) Ready(*http.Request) error {
	if s.current.Load() == nil && !s.settings.Certificate.Kept() {
		return errNoCertificate
	}
	return nil
}

func (s *Server) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := s.current.Load(); current != nil {
		return current.certificate, nil
	}
	return nil, fmt.Errorf("there is no certificate for ACME clients: it waits for %s", s.WaitsFor())
}
