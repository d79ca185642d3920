package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/controller/revoked"
	"github.com/certplane/certplane/internal/controller/webhookcert"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/frontend/crlserver"
	"github.com/certplane/certplane/internal/pki"
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
	// listen is the address, HOST:PORT, where everybody is served the revocation lists, by
	// plain HTTP: GET /ID.crl. The keys of the ConfigMap certplane-revocation-lists have the
	// IDs of the CAs. "certplane manifests" adds the Service certplane-revocation-lists. It
	// requires the controller publishlists. Default: "0", none.
	Listen string `json:"listen"`
}

const listListen = "revocation.listen"

// Validate returns an error for the first invalid value, with the name of its field.
func (c RevocationConfig) Validate() error {
	errs := []error{c.Webhook.Validate()}
	if c.ServesLists() {
		errs = append(errs, frontend.CheckAddress(listListen, c.Listen))
	}
	return errors.Join(errs...)
}

// ServesLists reports whether revocation lists are served by plain HTTP.
func (c RevocationConfig) ServesLists() bool { return c.Listen != frontend.Off && c.Listen != "" }

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

// FollowsRevocations reports whether the account of the webhooks follows Revocations: where no
// lists are signed, and a webhook refuses revoked certificates or those of its own clients.
func (c Config) FollowsRevocations() bool {
	return !c.work().PublishesLists() && (c.ServesRevocations() || c.Webhook.ClientCAFile != "")
}

// revocations is what the process knows of Revocations. The fields are nil if it does not
// follow them, or signs no lists.
type revocations struct {
	follower *revoked.Follower
	lists    *revoked.Lists
}

// followRevocations adds what follows Revocations and revocation lists, with and without the
// lease.
func followRevocations(process controllermanager.Process, cfg Config) (r revocations, err error) {
	work, account := cfg.work(), rights.WebhookAccount
	publishes := work.PublishesLists()
	switch {
	case publishes:
		account = rights.PublishLists.Account
	case cfg.FollowsRevocations():
	case work.Chooses(rights.IssueCertificates):
		account = rights.IssueCertificates.Account
	default:
		return r, nil
	}
	actor, err := process.Actor(account)
	if err != nil {
		return r, err
	}
	objects, err := dynamic.NewForConfig(actor.API)
	if err != nil {
		return r, fmt.Errorf("making the client for Revocations: %w", err)
	}
	r.follower = revoked.New(objects)
	follow := []manager.Runnable{r.follower}
	if publishes {
		core, err := kubernetes.NewForConfig(actor.API)
		if err != nil {
			return r, fmt.Errorf("making the client for revocation lists: %w", err)
		}
		r.lists = revoked.NewLists(r.follower, core.CoreV1().ConfigMaps(cfg.Namespace), actor.Events)
		follow = append(follow, r.lists)
	}
	for _, runs := range follow {
		if err := process.Manager.Add(controllermanager.Everywhere{Runnable: runs}); err != nil {
			return r, fmt.Errorf("adding the follower of Revocations: %w", err)
		}
	}
	return r, nil
}

// check returns an error if a certificate is revoked.
func (r revocations) check(cert *x509.Certificate) error {
	if r.follower == nil {
		return nil
	}
	if revoked, ok := r.follower.Revoked().Certificate(cert); ok {
		return fmt.Errorf("the certificate with serial number %s was revoked on %s: %s", cert.SerialNumber.Text(16), revoked.Time.Format(time.RFC3339), revoked.Reason)
	}
	return nil
}

// serveRevocations adds the webhook, if it is configured, and the controller that keeps its
// certificate; and where lists are served. All work with and without the lease.
func serveRevocations(process controllermanager.Process, cfg Config, own pki.Recorder, r revocations, serves *frontend.Config) error {
	if r.lists != nil && cfg.Revocation.ServesLists() {
		serves.Lists = &crlserver.Config{Address: cfg.Revocation.Listen, Field: listListen, Lists: r.lists.Lists, Await: r.lists.AwaitRead}
	}
	if !cfg.ServesRevocations() {
		return nil
	}
	objects := cfg.RevocationObjects()
	actor, changes, err := webhookActor(process, "the certificate of the webhook that refuses revoked certificates", objects.Watched())
	if err != nil {
		return err
	}
	server, err := cfg.Revocation.Webhook.Open(r.follower.AwaitRead)
	if err != nil {
		return err
	}
	serves.Revocations, serves.Revoked = server, r.follower.Revoked().Fingerprint
	issuing, err := controllermanager.Issuing(process.Metrics, own)
	if err != nil {
		return err
	}
	return webhookcert.Add(actor.Manager, webhookcert.Config{
		Name: "revocation-webhook-certificate", Client: actor.Client, Changes: changes, Objects: objects, Issuing: issuing,
		CALifetime: revocationCALifetime, Use: server.Use,
	})
}
