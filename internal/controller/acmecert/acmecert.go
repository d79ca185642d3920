// Package acmecert maintains the ACME server's certificate in a Secret. A signer or an
// issuer issues the certificate for a request, or the server's own CA does.
//
// It runs in every serving process, with or without the lease: each write succeeds only if
// the Secret has not changed since it was read, and the name of a request is derived from
// its key, so that all processes share one request.
package acmecert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
)

// Source is the issuer of the certificate: a signer, an issuer of cert-manager.io, or, if
// neither is set, the server's own CA.
type Source struct {
	Signer string
	Issuer *cmmeta.IssuerReference
}

func (s Source) String() string {
	switch {
	case s.Signer != "":
		return "signer " + s.Signer
	case s.Issuer != nil:
		return fmt.Sprintf("%s.%s %s", s.Issuer.Kind, s.Issuer.Group, s.Issuer.Name)
	default:
		return "self"
	}
}

func (s Source) own() bool { return s.Signer == "" && s.Issuer == nil }

// Config is the configuration of the controller.
type Config struct {
	// Client reads and writes as the controller's account. It needs create, get and update
	// on the Secret; for a signer create and get on certificatesigningrequests and list on
	// clustertrustbundles; for an issuer create, delete and get on certificaterequests in
	// the namespace of the Secret.
	Client client.Client
	// Changes notifies of changes of the Secret. It is a cache made with Watched.
	Changes cache.Cache
	// Secret is the Secret for the certificate and its key.
	Secret client.ObjectKey
	Source Source
	// Hosts are the DNS names and IP addresses of the certificate.
	Hosts []string
	// Roots returns the roots that clients of the server trust, if the configuration sets
	// them. It can be nil.
	Roots func() []*x509.Certificate
	// Issuing configures signatures of the server's own CA.
	Issuing pki.Issuing
	// Use is called with the certificate to serve from now on and its roots, the one that
	// issued it first.
	Use func(*tls.Certificate, []*x509.Certificate)
	// Wait is called with a phrase for the condition that the next certificate waits for;
	// empty if it does not wait.
	Wait func(reason string)
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
}

// Watched restricts a cache to the Secret.
func Watched(secret client.ObjectKey) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: worker.OneSecret(secret)}}
}

const (
	// name is the name of the server's own CA and the prefix of the names of requests;
	// manager owns the fields that this package writes.
	name    = "acme-server"
	manager = client.FieldOwner("certplane-acme-certificate")
	// lookEvery is the longest time between two checks: no event reports changed roots of
	// signers or a changed clock.
	lookEvery = time.Minute
)

// Add adds the controller to mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("acme-certificate").
		WatchesRawSource(source.Kind(cfg.Changes, client.Object(&corev1.Secret{}), one)).
		WatchesRawSource(worker.Once(reconcile.Request{})).
		WithOptions(worker.InEveryProcess()).
		Complete(newReconciler(cfg))
	if err != nil {
		return fmt.Errorf("building the certificate controller of the ACME server: %w", err)
	}
	return nil
}

func newReconciler(cfg Config) *reconciler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &reconciler{Config: cfg}
}
