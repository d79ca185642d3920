package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/rights"
)

// targetFlags are the flags that select the signers, policies or endpoints of a verb's
// right.
type targetFlags struct {
	signers, issuers, clusterIssuers, policies, endpoints []string
	kind, namespace                                       string
	many                                                  bool
}

// addTo adds the flags of a verb.
func (f *targetFlags) addTo(cmd *cobra.Command, verb string) {
	flags := cmd.Flags()
	if rights.OnPolicies(verb) {
		flags.StringSliceVar(&f.policies, "policy", nil, "Name of the CertificatePolicy. Repeatable.")
	}
	if rights.OnEndpoints(verb) {
		flags.StringSliceVar(&f.endpoints, "endpoint", nil, "Name of the AcmeEndpoint of the ACME server. Repeatable.")
	}
	if verb == rights.TaskUse {
		flags.StringVarP(&f.namespace, "namespace", "n", "", "Limit the right to requests in this namespace, for a CertificatePolicy.")
	}
	if !rights.OnRequests(verb) {
		return
	}
	flags.StringSliceVar(&f.signers, "signer", nil, "Name of the signer, DOMAIN/NAME, or DOMAIN/* for all signers of a domain. Repeatable.")
	if verb == rights.TaskAttest {
		return
	}
	flags.StringSliceVar(&f.issuers, "issuer", nil, "Name of an Issuer of cert-manager.io in --namespace, or in the namespace of the kubeconfig's context.")
	flags.StringSliceVar(&f.clusterIssuers, "cluster-issuer", nil, "Name of a ClusterIssuer of cert-manager.io.")
	if verb == rights.TaskRevoke {
		flags.StringVarP(&f.namespace, "namespace", "n", "", "Namespace of the --issuer.")
		flags.BoolVar(&f.many, "many", false, "Also to revoke more than 25 certificates by one act, or all of a CA.")
		return
	}
	flags.StringVarP(&f.namespace, "namespace", "n", "", "Namespace of the --issuer. With other flags: limit the right to requests in this namespace.")
	flags.StringVar(&f.kind, "kind", "", "Kind of the requests. Default: derived from the name of the signer.")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(target.Kinds(verb), cobra.ShellCompDirectiveNoFileComp)))
}

// targets returns the targets in the flags. more holds names in addition to those of the
// verb's first flag.
func (f *targetFlags) targets(ctx context.Context, verb string, c *connection, more ...string) ([]target.Target, error) {
	signers, policies, endpoints := f.signers, f.policies, f.endpoints
	switch {
	case rights.OnPolicies(verb):
		policies = append(policies, more...)
	case rights.OnRequests(verb):
		signers = append(signers, more...)
	default:
		endpoints = append(endpoints, more...)
	}
	named, err := f.named(verb, policies, endpoints)
	if err != nil {
		return nil, err
	}
	if signers, err = c.signerNames(ctx, signers); err != nil {
		return nil, err
	}
	all, err := parseAll(signers, func(name string) (target.Target, error) {
		return target.Parse(verb, name, f.kind, f.namespace)
	})
	if err != nil {
		return nil, err
	}
	issuers, err := parseAll(f.issuers, func(name string) (target.Target, error) {
		issuer := certmanager.Signer{Kind: cmv1.IssuerKind, Namespace: c.in(f.namespace), Name: name}
		return target.Parse(verb, issuer.String(), f.kind, "") // the name contains the namespace
	})
	if err != nil {
		return nil, err
	}
	clusterIssuers, err := parseAll(f.clusterIssuers, func(name string) (target.Target, error) {
		issuer := certmanager.Signer{Kind: cmv1.ClusterIssuerKind, Name: name}
		return target.Parse(verb, issuer.String(), f.kind, f.namespace)
	})
	found := slices.Concat(named, all, issuers, clusterIssuers)
	for i := range found {
		found[i].Many = f.many
	}
	return found, err
}

// named returns the targets that are policies and endpoints.
func (f *targetFlags) named(verb string, policies, endpoints []string) ([]target.Target, error) {
	if f.namespace != "" && len(endpoints) > 0 {
		return nil, fmt.Errorf("--namespace %s: AcmeEndpoints have no namespace: omit the flag", f.namespace)
	}
	ofPolicies, err := parseAll(policies, func(name string) (target.Target, error) { return target.Policy(verb, name, f.namespace) })
	if err != nil {
		return nil, err
	}
	ofEndpoints, err := parseAll(endpoints, func(name string) (target.Target, error) { return target.Endpoint(verb, name) })
	return append(ofPolicies, ofEndpoints...), err
}

func parseAll(names []string, parse func(string) (target.Target, error)) ([]target.Target, error) {
	var all []target.Target
	for _, name := range names {
		t, err := parse(name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// errNoTarget returns the error for a command without a target.
func errNoTarget(verb string) error {
	switch verb {
	case rights.TaskUse:
		return errors.New("name the CertificatePolicy or the AcmeEndpoint: --policy NAME or --endpoint NAME")
	case rights.TaskOverride:
		return errors.New("name the CertificatePolicy: --policy NAME")
	case rights.TaskAutoApprove, rights.TaskPreauthorize:
		return errors.New("name the AcmeEndpoint: --endpoint NAME")
	case rights.TaskAttest:
		return errors.New("name the signer: --signer DOMAIN/NAME")
	default:
		return errors.New("name the signer: --signer DOMAIN/NAME, --issuer NAME or --cluster-issuer NAME")
	}
}

// rbac connects to the server for roles and bindings. It does not call the
// server yet.
func (c *connection) rbac() (client.Client, error) {
	config, err := c.clientConfig(io.Discard)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // one command sends few requests
	connected, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: rbacMapper()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return connected, nil
}

func rbacMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Role", "RoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	mapper.Add(cmv1.SchemeGroupVersion.WithKind(cmv1.IssuerKind), meta.RESTScopeNamespace)
	mapper.Add(cmv1.SchemeGroupVersion.WithKind(cmv1.ClusterIssuerKind), meta.RESTScopeRoot)
	return mapper
}
