package cluster

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// frontEnds returns the HTTP front ends of the process except its probes. Each front end
// runs with or without the lease.
func frontEnds(cfg Config, own *rest.Config, process controllermanager.Process, work controllermanager.Config, r revocations, acme *listener.Server) ([]frontend.FrontEnd, error) {
	server, err := cfg.webhookServer()
	if err != nil {
		return nil, err
	}
	if server != nil {
		server.Clients.Revoked = r.check
		if err := keepCertificate(process, cfg, server, work); err != nil {
			return nil, err
		}
	}
	serves := frontend.Config{Metrics: cfg.Metrics, Webhook: server}
	if cfg.AdmitsPolicies() {
		if err := keepSeal(process, cfg.SealSecret(), work.Policies.Seals()); err != nil {
			return nil, err
		}
		serves.Policies = work.Policies
	}
	if err := serveRevocations(process, cfg, work.RecordOwn, r, &serves); err != nil {
		return nil, err
	}
	serves.HTTP01, serves.TLSALPN01 = work.Responders.FrontEnds(cfg.ACME)
	serves.ACME, serves.ACMEPolicies, serves.ACMEAttempts = acme, work.Policies, work.ACMEServer.Attempts
	serves.ACMEIssuers = work.AnswersForIssuers()
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		return nil, err
	}
	return frontend.Open(frontend.Process{
		As: process.As, Own: own, Namespace: process.Namespace, Several: true, Scheme: kinds, Now: time.Now, Metrics: process.Metrics,
		Mapper: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return process.Manager.GetRESTMapper(), nil },
	}, serves)
}

// acmeListener returns the listener of the ACME server, nil if the process is not one, and
// passes its roots to the controllers.
func acmeListener(cfg Config, work *controllermanager.Config) (*listener.Server, error) {
	if !cfg.ServesACME() {
		return nil, nil
	}
	server, err := listener.New(context.Background(), work.Settings.ACMEServer)
	work.ACMEServer.Listener, work.ACMEServer.Attempts = server, &attempts.Desk{}
	return server, err
}
