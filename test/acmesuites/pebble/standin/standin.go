// Package standin runs "certplane serve" with an endpoint that accepts as much as Pebble.
package standin

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// DirectoryPath is the path of Pebble's ACME directory.
const DirectoryPath = "/dir"

// directory is the path of certplane's ACME directory.
const directory = "/acme/suite/directory"

// programEnv is the environment variable with the path of the tested program.
const programEnv = "CERTPLANE"

// Profile is a profile of the endpoint.
type Profile struct {
	Description string
	// Seconds is the lifetime of its certificates. The default is a day.
	Seconds uint64
}

// Server is a server that the first request starts, because only that request contains
// the address that clients use. It ends with the process.
type Server struct {
	HTTPPort, TLSPort int
	// Resolver is a DNS server, HOST:PORT. The default is the system's.
	Resolver string
	Profiles map[string]Profile

	once  sync.Once
	front http.Handler
	dir   string
	err   error
}

// ServeHTTP forwards requests to the server, which the first one starts.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(func() {
		if s.err = s.start("https://" + r.Host); s.err != nil {
			log.Printf("certplane: %v", s.err)
		}
	})
	if s.err != nil {
		http.Error(w, s.err.Error(), http.StatusInternalServerError)
		return
	}
	if r.URL.Path == DirectoryPath {
		r.URL.Path = directory
	}
	s.front.ServeHTTP(w, r)
}

// Roots returns the roots of the endpoint's signer as PEM, once there was a request.
func (s *Server) Roots() (string, error) {
	if s.front == nil {
		return "", fmt.Errorf("nothing is served yet: %w", s.err)
	}
	return s.run("", "kubectl", "get", "clustertrustbundles", "--field-selector", "spec.signerName=example.com/suite", "-o", "jsonpath={.items[0].spec.trustBundle}")
}

func (s *Server) start(external string) error {
	var err error
	if s.dir, err = os.MkdirTemp("", "suite-"); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return err
	}
	config := filepath.Join(s.dir, "server.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, serverConfig, address, external), 0o600); err != nil {
		return err
	}
	logged, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	server := exec.Command(os.Getenv(programEnv), "serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(s.dir, "data"), "--config", config)
	server.Stdout, server.Stderr = logged, logged
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return err
	}
	if err := s.declare(); err != nil {
		text, _ := os.ReadFile(logged.Name())
		return fmt.Errorf("%w; its log: %s", err, text)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: address})
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	s.front = proxy
	return nil
}

// declare stores what the endpoint needs, and waits until it is ready.
func (s *Server) declare() error {
	var profiles strings.Builder
	for name, p := range s.Profiles {
		lifetime := time.Duration(p.Seconds) * time.Second
		if lifetime == 0 {
			lifetime = 24 * time.Hour
		}
		fmt.Fprintf(&profiles, "\n  - {name: %s, description: %q, signer: {name: example.com/suite}, lifetime: {default: %s, maximum: %s}}", name, p.Description, lifetime, lifetime)
	}
	names := ""
	if s.Resolver != "" {
		names = fmt.Sprintf("dns: {servers: [%q]}, ", s.Resolver)
	}
	objects := fmt.Sprintf(declared, names, max(s.HTTPPort, 1), max(s.TLSPort, 1), profiles.String())
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, err := s.run("", "kubectl", "get", "--raw", "/readyz")
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return err
		}
	}
	for _, step := range [][]string{
		{objects, "kubectl", "apply", "-f", "-"},
		{"", "acme", "allow", "-n", "default", "suite", "--endpoint", "suite", "--autoapprove", "--apply"},
		{"", "kubectl", "wait", "acmeendpoints", "suite", "--for=condition=Ready", "--timeout=60s"},
	} {
		if _, err := s.run(step[0], step[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command of the program as its administrator.
func (s *Server) run(input string, args ...string) (string, error) {
	cmd := exec.Command(os.Getenv(programEnv), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(s.dir, "data/admin.kubeconfig"))
	cmd.Stdin = strings.NewReader(input)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("certplane %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return string(out), nil
}

const serverConfig = `apiVersion: config.certplane.dev/v1alpha1
kind: ServerConfiguration
acmeServer: {listen: "%s", externalURL: "%s"}
`

const declared = `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: suite}
---
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: suite}
spec:
  signerName: example.com/suite
  requests: [CertificateSigningRequest]
  ca: {generated: {}}
  profile:
    names: {dnsNames: request.dnsNames, ipAddresses: request.ipAddresses}
    usages: [digital signature, key encipherment, server auth]
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata: {name: suite, annotations: {acme.certplane.dev/allow-local: "true"}}
spec:
  accounts: {admission: Open, serviceAccount: {namespace: default, name: suite}}
  identifiers: {dns: {allow: [example.com, "*.example.com"]}, ip: {allow: [127.0.0.1/32]}}
  challenges: {types: [http-01, tls-alpn-01], %shttp01: {ports: [%d]}, tlsAlpn01: {ports: [%d]}, networks: {allow: [127.0.0.0/8]}, attempts: {interval: 1s}}
  profiles:%s
`
