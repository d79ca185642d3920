package server

import (
	"crypto/tls"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
)

// serveRevocations adds the webhook that refuses revoked certificates, if it is configured.
// It does not listen before all revocations are read.
func (b base) serveRevocations(serves *frontend.Config) error {
	records := b.store.backend.Records
	server, err := b.cfg.Revocation.Webhook.Open(records.AwaitRead)
	if server == nil || err != nil {
		return err
	}
	presented := presents{b.serving, server}
	presented.Enqueue()
	b.serving.AddListener(presented)
	serves.Revocations, serves.Revoked = server, records.Revoked().Fingerprint
	return nil
}

// presents makes a webhook present the certificate of the API.
type presents struct {
	from *servingCert
	to   *admissionwebhook.Server
}

var _ dynamiccertificates.Listener = presents{}

// Enqueue implements dynamiccertificates.Listener.
func (p presents) Enqueue() {
	certificate, err := tls.X509KeyPair(p.from.CurrentCertKeyContent())
	if err != nil {
		klog.ErrorS(err, "Cannot use the serving certificate for the webhook about revocations; it keeps the former one")
		return
	}
	p.to.Use(&certificate)
}
