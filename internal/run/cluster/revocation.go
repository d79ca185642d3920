package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/controller/revoked"
	"github.com/certplane/certplane/internal/controller/webhookcert"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// revocationName is the name of the Secret with the certificate of the webhook that refuses
// revoked certificates, and of a Service that leads to it, if there is one.
const revocationName = "certplane-revocation-webhook"

// revocationCALifetime is the lifetime of the CA of its certificate. It is long because the
// CA is in files of the control plane, from where it is not replaced by itself.
const revocationCALifetime = 10 * 365 * 24 * time.Hour

// RevocationConfig is the stanza "revocation".
type RevocationConfig struct {
	// webhook configures the webhook with which a kube-apiserver refuses the certificates
	// that Revocations of its cluster name. Its certificate and the CA behind it are kept in
	// the Secret certplane-revocation-webhook.
	Webhook frontend.RevocationWebhookConfig `json:"webhook"`
}

// Validate returns an error for the first invalid value, with the name of its field.
func (c RevocationConfig) Validate() error { return c.Webhook.Validate() }

// ServesRevocations reports whether there is a webhook that refuses revoked certificates.
func (c Config) ServesRevocations() bool { return !c.Revocation.Webhook.Off() }

// RevocationObjects returns the names of the objects in the API of that webhook.
func (c Config) RevocationObjects() webhookcert.Objects {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(c.Revocation.Webhook.Listen); err == nil && host != "" {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() && !ip.IsLoopback() {
			hosts = append(hosts, host)
		}
	}
	return webhookcert.Objects{Namespace: c.Namespace, Secret: revocationName, Service: revocationName, Hosts: hosts}
}

// followRevocations adds a follower of Revocations for the controller of Certificates, if it
// runs.
func followRevocations(process controllermanager.Process, work *controllermanager.Config) error {
	if !work.Chooses(rights.IssueCertificates) {
		return nil
	}
	actor, err := process.Actor(rights.IssueCertificates.Account)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(actor.API)
	if err != nil {
		return fmt.Errorf("making the client for Revocations: %w", err)
	}
	follower := revoked.New(client)
	if err := process.Manager.Add(follower); err != nil {
		return fmt.Errorf("adding the follower of Revocations: %w", err)
	}
	work.Revoked = func(ctx context.Context) (*revocation.Index, error) { return follower.Index(), follower.AwaitRead(ctx) }
	return nil
}

// serveRevocations adds the webhook, if it is configured, what it follows, and the controller
// that keeps its certificate. All work with and without the lease.
func serveRevocations(process controllermanager.Process, cfg Config, serves *frontend.Config) error {
	if !cfg.ServesRevocations() {
		return nil
	}
	objects := cfg.RevocationObjects()
	actor, changes, err := webhookActor(process, "the certificate of the webhook that refuses revoked certificates", objects.Watched())
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(actor.API)
	if err != nil {
		return fmt.Errorf("making the client for Revocations: %w", err)
	}
	follower := revoked.New(client)
	if err := process.Manager.Add(controllermanager.Everywhere{Runnable: follower}); err != nil {
		return fmt.Errorf("adding the follower of Revocations: %w", err)
	}
	server, err := cfg.Revocation.Webhook.Open(follower.AwaitRead)
	if err != nil {
		return err
	}
	serves.Revocations, serves.Revoked = server, follower.Index().Fingerprint
	issuing, err := controllermanager.Issuing(process.Metrics, nil)
	if err != nil {
		return err
	}
	return webhookcert.Add(actor.Manager, webhookcert.Config{
		Name: "revocation-webhook-certificate", Client: actor.Client, Changes: changes, Objects: objects, Issuing: issuing,
		CALifetime: revocationCALifetime, Use: server.Use,
	})
}
