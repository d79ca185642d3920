package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

var trustDomain = spiffeid.RequireTrustDomainFromString("example.org")

// program is a program that reads its files again for each connection.
type program struct{ dir string }

// GetX509SVID implements x509svid.Source.
func (p program) GetX509SVID() (*x509svid.SVID, error) {
	data, err := os.ReadFile(filepath.Join(p.dir, "bundle.pem")) // once, for the key and the chain
	if err != nil {
		return nil, err
	}
	return x509svid.Parse(data, data)
}

// roots returns how many roots it trusts.
func (p program) roots() int {
	bundle, err := p.GetX509BundleForTrustDomain(trustDomain)
	if err != nil {
		return 0
	}
	return len(bundle.X509Authorities())
}

// GetX509BundleForTrustDomain implements x509bundle.Source.
func (p program) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	return x509bundle.Load(domain, filepath.Join(p.dir, "ca.pem"))
}

// leaf is the certificate that the program uses now.
func (p program) leaf() *x509.Certificate {
	svid, err := p.GetX509SVID()
	if err != nil {
		return &x509.Certificate{}
	}
	return svid.Certificates[0]
}

// id returns the identity of a program.
func id(account string) spiffeid.ID {
	return spiffeid.RequireFromPath(trustDomain, "/ns/default/sa/"+account)
}

// traffic is a series of connections between two programs, from several
// clients.
type traffic struct {
	server, client program
	listener       net.Listener
	// good counts the connections; bad has some of the failures.
	good atomic.Int64
	mu   sync.Mutex
	bad  []error
}

// begin makes connections until the test ends.
func (tr *traffic) begin(t *testing.T) {
	t.Helper()
	var err error
	config := tlsconfig.MTLSServerConfig(tr.server, tr.server, tlsconfig.AuthorizeID(id("client")))
	if tr.listener, err = tls.Listen("tcp", "127.0.0.1:0", config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(tr.accept)
	for range 3 {
		group.Go(func() {
			for ctx.Err() == nil {
				tr.note(tr.connect(tr.client))
			}
		})
	}
	t.Cleanup(func() { cancel(); _ = tr.listener.Close(); group.Wait() })
}

func (tr *traffic) accept() {
	for {
		connection, err := tr.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			_ = connection.SetDeadline(time.Now().Add(patience))
			_, _ = fmt.Fprintln(connection, "hello")
		}()
	}
}

// connect makes both sides verify each other; the client has the files of from.
func (tr *traffic) connect(from program) error {
	dialer := &net.Dialer{Timeout: patience}
	connection, err := tls.DialWithDialer(dialer, "tcp", tr.listener.Addr().String(),
		tlsconfig.MTLSClientConfig(from, from, tlsconfig.AuthorizeID(id("server"))))
	if err != nil {
		return err
	}
	defer connection.Close()
	greeting := make([]byte, 6) // by then the server has verified the client, too
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := connection.Read(greeting); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	return nil
}

func (tr *traffic) note(err error) {
	if err == nil {
		tr.good.Add(1)
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.bad) < 5 {
		tr.bad = append(tr.bad, err)
	}
}

func (tr *traffic) failures() error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return errors.Join(tr.bad...)
}
