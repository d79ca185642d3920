// Package acmecert keeps the certificate of the ACME server in a Secret: one that a
// signer or an issuer has issued for a request, or one of a CA of its own.
//
// It works in every serving process, with or without the lease: each write succeeds only
// if the Secret has not changed since it was read, and the name of a request follows from
// its key, so that all processes have one request.
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
	"github.com/certplane/certplane/internal/worker"
)

// Source says who issues the certificate: a signer, an issuer of cert-manager.io, or, if
// there is neither, a CA of the server's own.
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

// Config is what is needed to run.
type Config struct {
	// Client reads and writes as the controller's account. It needs create, get and update
	// on the Secret; for a signer create and get on certificatesigningrequests and list on
	// clustertrustbundles; for an issuer create, delete and get on certificaterequests in
	// the namespace of the Secret.
	Client client.Client
	// Changes notifies of changes of the Secret: it is a cache with Watched.
	Changes cache.Cache
	// Secret is where the certificate is kept, with its key.
	Secret client.ObjectKey
	Source Source
	// Hosts are the DNS names and addresses of the certificate.
	Hosts []string
	// Roots returns the roots by which clients know the certificate, if the
	// configuration has them. It can be nil.
	Roots func() []*x509.Certificate
	// Issuing is what the CA of the server's own signs with, in addition to its key.
	Issuing pki.Issuing
	// Use is called with the certificate to serve from now on, and the roots that clients
	// know it by, the one that has issued it first.
	Use func(*tls.Certificate, []*x509.Certificate)
	// Wait is called with what the next certificate waits for; empty if for nothing.
	Wait func(reason string)
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
}

// Watched restricts a cache to the Secret.
func Watched(secret client.ObjectKey) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: worker.OneSecret(secret)}}
}

const (
	// name is that of the CA of the server's own and the beginning of those of requests;
	// manager owns the fields that are written here.
	name    = "acme-server"
	manager = client.FieldOwner("certplane-acme-certificate")
	// lookEvery is the longest time between two looks: roots of signers and clocks
	// change without a word.
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
		return fmt.Errorf("building what keeps the certificate of the ACME server: %w", err)
	}
	return nil
}

func newReconciler(cfg Config) *reconciler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &reconciler{Config: cfg}
}
