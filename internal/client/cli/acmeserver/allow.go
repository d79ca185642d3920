package acmeserver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/grant"
	"github.com/certplane/certplane/internal/rights"
)

// AllowConfig selects the rights to grant.
type AllowConfig struct {
	Config
	// Namespace and ServiceAccount name the identity that the ACME server may use.
	Namespace, ServiceAccount string
	// Secrets are Secrets of external keys that the server may create and read, in
	// addition to those of the namespace's existing keys.
	Secrets []string
	// Endpoint is the AcmeEndpoint that the ServiceAccount may use; empty for none.
	Endpoint string
	// AutoApprove lets its requests be approved without a person.
	AutoApprove bool
	// Controllers is the namespace of the accounts of certplane's controllers.
	Controllers string
	// Apply writes the objects; otherwise they are printed.
	Apply bool
	// Again is the command line for another user.
	Again string
}

// Allow prints or writes the Roles with which a namespace's owner lets the ACME server
// act as a ServiceAccount. With an endpoint it adds the rights that the ServiceAccount
// needs there; only an administrator can grant these.
func Allow(ctx context.Context, cfg AllowConfig) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	secrets, err := cfg.secrets(ctx, c)
	if err != nil {
		return err
	}
	objects := consent(cfg.Namespace, cfg.ServiceAccount, secrets, cfg.Controllers)
	if cfg.Endpoint != "" {
		e, err := cfg.endpoint(ctx, c, cfg.Endpoint)
		if err != nil {
			return err
		}
		objects = append(objects, uses(cfg.Namespace, cfg.ServiceAccount, e, cfg.AutoApprove)...)
	}
	written := grant.Config{
		Output: cfg.Output, DryRun: grant.DryRunNone, Connect: func() (client.Client, error) { return c, nil },
		Command: cfg.Command, Again: cfg.Again, Stdout: cfg.Stdout, Stderr: cfg.Stderr,
	}
	if cfg.Apply {
		written.Output = ""
	}
	if _, err := grant.Write(ctx, written, objects); err != nil {
		return err
	}
	cfg.remark(secrets)
	return nil
}

// remark explains the rights, and lists what is still missing.
func (cfg AllowConfig) remark(secrets []string) {
	note := func(format string, args ...any) { fmt.Fprintf(cfg.Stderr, "Note: "+format+"\n", args...) }
	if len(secrets) > 0 {
		note("the account %s may then create any Secret in %s: RBAC cannot limit the right to create to a name.", rights.KeepACMEEndpoints.Account, cfg.Namespace)
	}
	if cfg.Endpoint == "" {
		note("the ServiceAccount also needs rights to an endpoint, which an administrator grants: %s",
			cfg.Command("acme", "allow", "-n", cfg.Namespace, cfg.ServiceAccount, "--endpoint", "ENDPOINT"))
	} else if !cfg.AutoApprove {
		note("its requests wait for a person or a certificate policy. With --autoapprove they are approved automatically.")
	}
	if !cfg.Apply {
		note("nothing was written. To write the objects, add --apply, or pipe them to '%s'.", cfg.Command("kubectl", "apply", "-f", "-"))
	}
}

// secrets returns the Secrets of the ServiceAccount's external keys, if the caller may
// list the keys.
func (cfg AllowConfig) secrets(ctx context.Context, c client.Client) ([]string, error) {
	names := slices.Clone(cfg.Secrets)
	keys := &v1alpha1.AcmeExternalKeyList{}
	if err := c.List(ctx, keys, client.InNamespace(cfg.Namespace)); err != nil && !apierrors.IsForbidden(err) {
		return nil, cfg.refused("listing AcmeExternalKeys", err, "list on acmeexternalkeys.certplane.dev")
	}
	for _, k := range keys.Items {
		if k.Spec.ServiceAccount == cfg.ServiceAccount {
			names = append(names, k.Spec.Secret.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// consent returns the Roles that let the ACME server act as a ServiceAccount and manage
// the Secrets of external keys.
func consent(namespace, serviceAccount string, secrets []string, controllers string) []client.Object {
	byAccount := rights.ACMEConsent(serviceAccount, secrets...)
	var objects []client.Object
	for _, account := range slices.Sorted(maps.Keys(byAccount)) {
		subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controllers, Name: account}}
		name := "certplane:" + account + ":" + serviceAccount
		objects = append(objects, grant.InNamespace(namespace, name, byAccount[account], subjects)...)
	}
	return objects
}

// uses returns the rights that a ServiceAccount needs for orders of an endpoint.
func uses(namespace, serviceAccount string, e *v1alpha1.AcmeEndpoint, autoApprove bool) []client.Object {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: serviceAccount}}
	name := "certplane:acme:" + rights.ACMEUse + ":" + e.Name
	ofCluster, ofNamespace := rights.ACMERequester(e.Name, asks(e))
	objects := grant.InCluster(name, ofCluster, subjects)
	if len(ofNamespace) > 0 {
		objects = append(objects, grant.InNamespace(namespace, name, ofNamespace, subjects)...)
	}
	if autoApprove {
		objects = append(objects, grant.InCluster("certplane:acme:"+rights.ACMEAutoApprove+":"+e.Name, rights.ACMENoPerson(e.Name), subjects)...)
	}
	return objects
}

// asks returns the kinds of requests that the server creates for orders of an endpoint.
func asks(e *v1alpha1.AcmeEndpoint) (kinds rights.ACMERequests) {
	for _, p := range e.Spec.Profiles {
		kinds.OfSigners = kinds.OfSigners || p.Signer != nil
		kinds.OfIssuers = kinds.OfIssuers || p.Issuer != nil
	}
	return kinds
}
