// Package acmeserver implements the client verbs for certplane's own ACME server: they
// show endpoints and credentials for clients, grant rights, decide accounts, and let a
// host trust the server.
package acmeserver

import (
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

// fieldManager is the name of this client in managed fields.
const fieldManager = "certplane"

// Config holds the connection to the server, and the outputs.
type Config struct {
	// Connect connects to the server.
	Connect func() (client.Client, error)
	// Command returns the command line of another verb for the same server.
	Command func(words ...string) string
	// Output is json, yaml, or empty for text.
	Output string
	// Now returns the current time.
	Now func() time.Time
	// Results are written to Stdout, remarks to Stderr.
	Stdout, Stderr io.Writer
}

// Connect returns a client for the objects of the ACME server, and for roles. It does
// not call the server yet.
func Connect(cfg *rest.Config) (client.Client, error) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"AcmeEndpoint", "AcmeAccount"} {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(v1alpha1.GroupVersion.WithKind("AcmeOrder"), meta.RESTScopeNamespace)
	// Its plural is irregular.
	mapper.AddSpecific(v1alpha1.GroupVersion.WithKind("AcmeExternalKey"), v1alpha1.GroupVersion.WithResource("acmeexternalkeys"), v1alpha1.GroupVersion.WithResource("acmeexternalkey"), meta.RESTScopeNamespace)
	for _, kind := range []string{"Role", "RoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	connected, err := client.New(cfg, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return connected, nil
}

// refused adds the next step to the error of a call; nil stays nil. needs is the right
// that the call requires, list the arguments of a kubectl command that lists the objects.
func (cfg Config) refused(doing string, err error, needs string, list ...string) error {
	switch {
	case err == nil:
		return nil
	case served.IsMissing(err):
		return exit.WithNext(fmt.Errorf("%s: the API server has no AcmeEndpoints", doing),
			"'certplane serve' serves them; in a cluster, 'certplane manifests' installs them: see docs/acme-server.md.")
	case apierrors.IsNotFound(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), "To list them:", "  "+cfg.Command(append([]string{"kubectl", "get"}, list...)...))
	case apierrors.IsForbidden(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), "It requires "+needs+".")
	}
	return exit.Advise(doing, err)
}
