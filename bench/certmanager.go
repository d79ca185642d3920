package main

import (
	"context"
	"errors"
	"path/filepath"
)

// certManagerPeer is cert-manager's controllers of Certificates.
const certManagerPeer = "cert-manager-controller"

// certManagerControllers are certplane's controllers that do its work.
var certManagerControllers = []string{
	"issuers", "certificates", "certificaterequests-approver", "certificaterequests", "orders", "challenges",
}

// startCertManager starts certplane without its controllers of cert-manager.io,
// and cert-manager's own, without limits on its client.
func startCertManager(ctx context.Context, opts options) (_ *system, err error) {
	s, err := startConfigured(ctx, opts, configuration(certManagerControllers...))
	if err != nil {
		return nil, err
	}
	s.name, s.metrics = "cert-manager", false // it is two processes
	if err := s.start(filepath.Join(opts.assets, certManagerPeer), "-kubeconfig", filepath.Join("data", "admin.kubeconfig")); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}
