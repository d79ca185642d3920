package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest/freeport"
)

// acmeSystem is a running ACME server.
type acmeSystem struct {
	*system
	server *acmeServer
	// external is the key of an external account for whose names no proof is needed;
	// nil if there is none.
	external *externalAccount
}

// pebblePeer is Pebble, which keeps everything in memory.
const pebblePeer = "pebble"

// startACME starts certplane with an ACME server.
func startACME(ctx context.Context, opts options, answers *challengeAnswers) (*acmeSystem, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	s, err := startConfigured(ctx, opts, configuration()+fmt.Sprintf("acmeServer: {listen: '%s', externalURL: 'https://%s'}\n", address, address))
	if err != nil {
		return nil, err
	}
	external, err := makeEndpoint(ctx, s, answers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the endpoint: %w", err), s.stop())
	}
	return newACMESystem(ctx, s, external, acmeAccess{"https://" + address + "/acme/bench/directory", string(s.admin.CAData)}, answers)
}

// acmeAccess is how an ACME server is reached. Roots are PEM.
type acmeAccess struct{ Directory, Roots string }

// newACMESystem reads the directory of a running server, which it stops if that fails.
func newACMESystem(ctx context.Context, s *system, external *externalAccount, access acmeAccess, answers *challengeAnswers) (*acmeSystem, error) {
	server, err := readDirectory(ctx, access.Directory, access.Roots, answers)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return &acmeSystem{s, server, external}, nil
}

// endpointYAML contains all objects for certificates by ACME. The limits are above the
// measured load. Other servers validate without pauses, so this one may connect to this
// host.
const endpointYAML = `
apiVersion: v1
kind: Namespace
metadata: {name: acme-bench}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: acme-bench, name: client}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: acme-bench}
rules:
- {apiGroups: [certplane.dev], resources: [acmeendpoints], resourceNames: [bench], verbs: [use, autoapprove]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: acme-bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acme-bench}
subjects: [{kind: ServiceAccount, namespace: acme-bench, name: client}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: acme-bench, name: acme}
rules:
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [client], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: acme-bench, name: acme}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: acme}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: acme-orders}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: acme-bench, name: acme-secrets}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [create, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: acme-bench, name: acme-secrets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: acme-secrets}
subjects:
- {kind: ServiceAccount, namespace: kube-system, name: acme-endpoints}
- {kind: ServiceAccount, namespace: kube-system, name: acme-server}
---
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: acme-bench}
spec:
  signerName: bench.example/hosts
  requests: [CertificateSigningRequest]
  ca: {generated: {commonName: bench}}
  profile: {names: {dnsNames: request.dnsNames}, usages: [digital signature, key encipherment, server auth]}
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata: {name: bench, annotations: {acme.certplane.dev/allow-local: "true"}}
spec:
  accounts: {admission: Open, serviceAccount: {namespace: acme-bench, name: client}}
  identifiers: {dns: {allow: ["*.bench.example"]}}
  profiles: [{name: server, signer: {name: bench.example/hosts}}]
  challenges:
    types: [http-01]
    http01: {ports: [PORT]}
    dns: {servers: ["RESOLVER"]}
    networks: {allow: [127.0.0.0/8]}
  limits: {ordersPerAccountPerHour: 1000000, pendingOrdersPerAccount: 10000, waitingOrdersPerAccount: 10000, accountsPerAddressPerHour: 10000}
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeExternalKey
metadata: {namespace: acme-bench, name: fleet}
spec:
  endpoint: bench
  serviceAccount: client
  secret: {name: fleet}
  preauthorized: {dns: ["*.bench.example"]}
`

// makeEndpoint returns the external account of the endpoint when that is ready.
func makeEndpoint(ctx context.Context, s *system, answers *challengeAnswers) (*externalAccount, error) {
	objects, err := newObjects(s.admin)
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("PORT", strconv.Itoa(answers.port), "RESOLVER", answers.resolver).Replace(endpointYAML)
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, err
		}
		if err := objects.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	endpoint, key, secret := &v1alpha1.AcmeEndpoint{}, &v1alpha1.AcmeExternalKey{}, &corev1.Secret{}
	err = s.await(ctx, "the ACME endpoint is ready", func(ctx context.Context) bool {
		return objects.Get(ctx, client.ObjectKey{Name: "bench"}, endpoint) == nil && meta.IsStatusConditionTrue(endpoint.Status.Conditions, v1alpha1.Ready) &&
			objects.Get(ctx, client.ObjectKey{Namespace: "acme-bench", Name: "fleet"}, key) == nil && meta.IsStatusConditionTrue(key.Status.Conditions, v1alpha1.Ready) &&
			objects.Get(ctx, client.ObjectKey{Namespace: "acme-bench", Name: "fleet"}, secret) == nil
	})
	if err != nil {
		return nil, err
	}
	mac, err := base64.RawURLEncoding.DecodeString(string(secret.Data[key.Spec.Secret.Key]))
	return &externalAccount{id: key.Status.KID, mac: mac}, err
}

func newObjects(admin *rest.Config) (client.Client, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return nil, err
	}
	return client.New(admin, client.Options{Scheme: clientgoscheme.Scheme})
}

// startACMEPeer starts a peer's program with the address of the challenge answers.
func startACMEPeer(ctx context.Context, opts options, name string, answers *challengeAnswers) (*acmeSystem, error) {
	var access acmeAccess // from the programs of test/interop/stepca and test/interop/acme
	s, err := startPeer(ctx, opts, name, &access, "-http-port", strconv.Itoa(answers.port), "-resolver", answers.resolver)
	if err != nil {
		return nil, err
	}
	return newACMESystem(ctx, s, nil, access, answers)
}
