package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// acmeCertificate keeps the certificate of the ACME server, which the CA of the API's
// own certificate issues, for the host of the URL that clients are given.
type acmeCertificate struct {
	dir    string
	names  []string
	server *listener.Server
	pair   keyPair
}

// acmeServer returns what controllers need of the ACME server, including the addresses of
// the API and of etcd, to which validations must not connect. server is nil if the ACME
// server is off.
func acmeServer(server *listener.Server, tries *attempts.Desk, api net.Listener, etcd []string) controllermanager.ACMEServer {
	known := controllermanager.ACMEServer{Listener: server, Attempts: tries}
	known.Network.URLs = etcd
	if at, err := netip.ParseAddrPort(api.Addr().String()); err == nil {
		known.Network.Listeners = []netip.AddrPort{at}
	}
	return known
}

// newACMEListener returns the listener of the ACME server and the keeper of its certificate.
// The listener is nil if the ACME server is off; the keeper is nil if the certificate is in
// files.
func newACMEListener(ctx context.Context, cfg Config, pkiDir string, credentials *credentials, now time.Time) (*listener.Server, *acmeCertificate, error) {
	settings := cfg.ACMEServer
	if settings.Off() {
		return nil, nil, nil
	}
	server, err := listener.New(ctx, settings)
	if err != nil || !settings.Certificate.Own() {
		return server, nil, err
	}
	own := &acmeCertificate{dir: pkiDir, names: append(settings.Hosts(), cfg.Serving.ExtraNames...), server: server}
	return server, own, own.renew(credentials, now)
}

// renew replaces the certificate if it is about to expire, or was made for other names
// or by another CA. A nil acmeCertificate does nothing.
func (a *acmeCertificate) renew(c *credentials, now time.Time) error {
	if a == nil {
		return nil
	}
	pair, err := leaf{"acme-server", acmeServingUse, servingSubject(a.names), pki.ServerUsages(), c.servingRoot}.open(c, a.dir, now)
	if err != nil || bytes.Equal(pair.certPEM, a.pair.certPEM) {
		return err
	}
	certificate := &tls.Certificate{PrivateKey: pair.key, Leaf: pair.chain[0]}
	for _, cert := range pair.chain {
		certificate.Certificate = append(certificate.Certificate, cert.Raw)
	}
	roots := []*x509.Certificate{c.servingRoot.Certificate()}
	a.server.Use(certificate, listener.TrustIn(roots...))
	if a.pair.certPEM != nil {
		klog.InfoS("Renewed the certificate of the ACME server", "notAfter", pair.chain[0].NotAfter)
	}
	a.pair = pair
	return nil
}
