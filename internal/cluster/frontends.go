package cluster

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acmeserver/listener"
	"github.com/certplane/certplane/internal/controllermanager"
	"github.com/certplane/certplane/internal/frontend"
)

// frontEnds returns what the process serves over HTTP besides its probes. Each
// front end runs with or without the lease.
func frontEnds(cfg Config, own *rest.Config, process controllermanager.Process, work controllermanager.Config, acme *listener.Server) ([]frontend.FrontEnd, error) {
	server, err := cfg.webhookServer()
	if err != nil {
		return nil, err
	}
	if server != nil {
		if err := keepCertificate(process, cfg, server, work.Policies); err != nil {
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
	serves.HTTP01, serves.TLSALPN01 = work.Responders.FrontEnds(cfg.ACME)
	serves.ACME, serves.ACMEPolicies, serves.ACMEAttempts = acme, work.Policies, work.ACMEServer.Attempts
	serves.ACMEIssuers = work.AnswersForIssuers()
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		return nil, err
	}
	all, err := frontend.Open(frontend.Process{
		As: process.As, Own: own, Namespace: process.Namespace, Several: true, Scheme: kinds, Now: time.Now, Metrics: process.Metrics,
		Mapper: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return process.Manager.GetRESTMapper(), nil },
	}, serves)
	if err != nil {
		return nil, err
	}
	return all, addProbes(process.Manager, all)
}

// acmeListener returns the listener of the ACME server, nil if the process is none, and
// has the controllers know its roots.
func acmeListener(cfg Config, work *controllermanager.Config) (*listener.Server, error) {
	if !cfg.ServesACME() {
		return nil, nil
	}
	server, err := listener.New(context.Background(), work.Settings.ACMEServer)
	work.ACMEServer.Listener, work.ACMEServer.Attempts = server, &attempts.Desk{}
	return server, err
}

// addProbes adds /healthz, which reports whether the process answers, and
// /readyz, which reports whether it could work now, with the lease or waiting
// for it, and whether its front ends are ready. Neither depends on the health
// of the API: restarting this process would not help there.
func addProbes(mgr ctrl.Manager, frontEnds []frontend.FrontEnd) error {
	var started atomic.Bool
	synced := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !started.Load() || !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
	errs := []error{
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", synced),
		mgr.Add(controllermanager.Everywhere{Runnable: manager.RunnableFunc(func(context.Context) error { started.Store(true); return nil })}),
	}
	for _, f := range frontEnds {
		if f.Ready != nil {
			errs = append(errs, mgr.AddReadyzCheck(f.Name, f.Ready))
		}
	}
	return errors.Join(errs...)
}
