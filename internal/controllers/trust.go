package controllers

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/trust"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/roots"
)

const (
	// trustAccount is the service account of the trust bundle publisher.
	trustAccount = "trust-bundle-publisher"
	// apiServerSigner is who the API server's own certificate is said to be
	// signed by.
	apiServerSigner = "kubernetes.io/kube-apiserver-serving"
)

func addTrust(p Process, cfg Config) error {
	signers, err := p.trustedSigners(cfg)
	if err != nil || len(signers) == 0 {
		return err
	}
	writer, err := p.Client(trustAccount)
	if err != nil {
		return err
	}
	recorder, err := p.Recorder(trustAccount)
	if err != nil {
		return err
	}
	api, err := p.As(trustAccount)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return fmt.Errorf("making the client for discovery: %w", err)
	}
	return trust.Add(p.Manager, trust.Config{
		API: api, Client: writer, Signers: signers, Events: recorder, Metrics: p.Metrics,
		Versions: kinds.ServerResourcesForGroupVersionWithContext,
	})
}
