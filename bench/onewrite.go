package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
)

// oneWriteYAML approves the requests of all rounds when they are created.
const oneWriteYAML = `
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: bench-one-write}
spec:
  effect: Allow
  match:
    kinds: [CertificateSigningRequest]
    signers: [kubernetes.io/kube-apiserver-client]
    requesters: {users: [` + requester + `]}
  certificate:
    subject: {commonName: {patterns: [requester]}}
    usages: {allowed: [digital signature, client auth]}
  approval: {mode: Automatic, issueOnCreate: true}
`

// allowOneWrite returns when the policy is in force.
func allowOneWrite(ctx context.Context, admin *rest.Config) error {
	policies, err := newBenchPolicies(admin)
	if err != nil {
		return err
	}
	return policies.create(ctx, oneWriteYAML)
}

// obtainAtOnce creates one request. If the answer has no certificate, it waits until another
// client has approved the request.
func (w *waiting) obtainAtOnce(ctx context.Context, client *requesterClient, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	issued := w.expect(name)
	created, err := client.create(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(created.Status.Certificate) > 0 {
		w.forget(name)
		w.inAnswer.Add(1)
		return created.Status.Certificate, nil
	}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("the answer has no certificate: %w", err)
	}
	return w.await(ctx, issued)
}
