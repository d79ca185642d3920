package server

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/store/datadir"
)

// renewalPoll is how often a running server checks whether its certificates are
// about to expire.
const renewalPoll = 10 * time.Minute

// renewal replaces the server's own certificate and the administrator's before
// they expire, and at once when they are revoked, while the server runs. It is used only by run.
type renewal struct {
	dir         datadir.Dir
	names       []string // in the serving certificate
	url         string   // in the kubeconfig
	clock       clock.WithTicker
	credentials *credentials
	serving     *servingCert
	acme        *acmeCertificate // nil if there is none to renew
	// recordKeys records in the store the keys that have changed as planned.
	recordKeys func(context.Context) error
	// latestCA offers the client CA to other servers, and returns the latest.
	latestCA func(context.Context, clientCA) (clientCA, error)
}

// run renews until ctx ends. It tries again after failures: there are weeks.
func (r *renewal) run(ctx context.Context) error {
	ticker := r.clock.NewTicker(renewalPoll)
	defer ticker.Stop()
	renew := func() {
		if err := r.renew(r.clock.Now()); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot renew the server's certificates", "tryAgainIn", renewalPoll)
		}
	}
	for {
		_, revoked := r.credentials.revoked.Changed()
		if r.isRevoked() {
			renew()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-revoked:
		case <-ticker.C():
			renew()
			if err := r.recordKeys(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Cannot record the server's keys in the store", "tryAgainIn", renewalPoll)
			}
			if err := r.exchange(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Cannot exchange the client CA with the other servers of the store", "tryAgainIn", renewalPoll)
			}
		}
	}
}

// isRevoked reports whether a certificate in use is revoked.
func (r *renewal) isRevoked() bool {
	pairs := []keyPair{r.credentials.serving, r.credentials.admin}
	if r.acme != nil {
		pairs = append(pairs, r.acme.pair)
	}
	return slices.ContainsFunc(pairs, func(pair keyPair) bool { return r.credentials.isRevoked(pair.chain[0]) })
}

// exchange makes all servers of the store use the latest client CA.
func (r *renewal) exchange(ctx context.Context) error {
	latest, err := r.latestCA(ctx, r.credentials.clientCA)
	if err != nil {
		return err
	}
	credentials := *r.credentials
	credentials.clientCA = latest
	r.credentials = &credentials
	return nil
}

func (r *renewal) renew(now time.Time) error {
	renewed, err := r.credentials.renewed(r.dir.PKI(), r.names, now)
	if err != nil {
		return err
	}
	if !bytes.Equal(renewed.serving.certPEM, r.credentials.serving.certPEM) {
		r.serving.set(renewed.serving)
		klog.InfoS("Renewed the serving certificate", "notAfter", renewed.serving.chain[0].NotAfter)
	}
	if !bytes.Equal(renewed.admin.certPEM, r.credentials.admin.certPEM) {
		if err := writeKubeconfig(r.dir.AdminKubeconfig(), r.url, renewed); err != nil {
			return err
		}
		klog.InfoS("Renewed the certificate in the admin kubeconfig", "notAfter", renewed.admin.chain[0].NotAfter)
	}
	r.credentials = renewed
	return r.acme.renew(renewed, now)
}

// servingCert is the certificate for new connections.
type servingCert struct {
	mu        sync.Mutex // guards all below
	pair      keyPair
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*servingCert)(nil)

func newServingCert(pair keyPair) *servingCert { return &servingCert{pair: pair} }

func (*servingCert) Name() string { return "serving" }

func (c *servingCert) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair.certPEM, c.pair.keyPEM
}

func (c *servingCert) AddListener(listener dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, listener)
}

func (c *servingCert) set(pair keyPair) {
	c.mu.Lock()
	c.pair = pair
	listeners := c.listeners
	c.mu.Unlock()
	for _, listener := range listeners {
		listener.Enqueue()
	}
}
