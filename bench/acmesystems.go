package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
func startACME(ctx context.Context, opts options, answers *challengeAnswers) (_ *acmeSystem, err error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "certplane-bench-")
	if err != nil {
		return nil, err
	}
	s := &acmeSystem{system: &system{name: threeStepSystem, dir: dir, profiled: true}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	config := configuration() + fmt.Sprintf("acmeServer: {listen: '%s', externalURL: 'https://%s'}\n", address, address)
	if err := os.WriteFile(filepath.Join(dir, "server.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := s.serve(ctx, opts, "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if s.external, err = makeEndpoint(ctx, s.system, answers); err != nil {
		return nil, fmt.Errorf("making the endpoint: %w", err)
	}
	s.server, err = readDirectory(ctx, "https://"+address+"/acme/bench/directory", string(s.admin.CAData), answers)
	return s, err
}

// endpointYAML has everything for certificates by ACME. The limits are above what is
// measured. Others validate without pauses, so this one may connect to this host.
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

// startACMEPeer starts a peer's program, which is told where proofs are, and writes how
// it is reached.
func startACMEPeer(ctx context.Context, opts options, name string, answers *challengeAnswers) (_ *acmeSystem, err error) {
	dir, err := os.MkdirTemp("", name+"-bench-")
	if err != nil {
		return nil, err
	}
	s := &acmeSystem{system: &system{name: name, dir: dir}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if err := s.start(filepath.Join(opts.assets, name), "-dir", dir, "-http-port", strconv.Itoa(answers.port), "-resolver", answers.resolver); err != nil {
		return nil, err
	}
	text, err := s.awaitAccess(ctx)
	if err != nil {
		return nil, err
	}
	// access is what the programs of test/interop/stepca and test/interop/acme write.
	var access struct {
		Directory string `json:"directory"`
		Roots     string `json:"roots"`
	}
	if err := json.Unmarshal(text, &access); err != nil {
		return nil, fmt.Errorf("reading how %s is reached: %w", name, err)
	}
	s.server, err = readDirectory(ctx, access.Directory, access.Roots, answers)
	return s, err
}

// awaitAccess returns what a peer's program has written of how it is reached. It
// renames the file to its name as the last thing that it does.
func (s *system) awaitAccess(ctx context.Context) (text []byte, err error) {
	err = s.await(ctx, s.name+" is ready", func(context.Context) bool {
		text, err = os.ReadFile(filepath.Join(s.dir, "access.json"))
		return err == nil
	})
	return text, err
}
