package cli

import (
	"context"
	"io"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
)

// completionPatience is the timeout of completion for a server that does not answer.
const completionPatience = 2 * time.Second

// source returns the values that a shell offers.
type source func(ctx context.Context, api explain.Reader, namespace string) ([]string, error)

// completedArguments are the verbs whose arguments are names of objects on the server.
var completedArguments = map[string]source{
	"certplane approve":                       undecidedNames,
	"certplane deny":                          undecidedNames,
	"certplane explain csr":                   namesOf(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), false),
	"certplane explain certificaterequest":    namesOf(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind), true),
	"certplane explain certificate":           namesOf(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind), true),
	"certplane explain podcertificaterequest": namesOf(certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"), true),
	"certplane explain revocation":            namesOf(v1alpha1.GroupVersion.WithKind("Revocation"), false),
	"certplane explain signer":                signerNames,
	"certplane renew":                         namesOf(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind), true),
	"certplane status certificate":            namesOf(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind), true),
	"certplane trust":                         signerNames,
	"certplane who-can approve":               signerNames,
	"certplane who-can attest":                signerNames,
	"certplane who-can request":               signerNames,
	"certplane who-can revoke":                signerNames,
	"certplane who-can sign":                  signerNames,
}

// completedFlags are the flags whose values are names of objects on the server.
var completedFlags = map[string]source{
	"signer":    signerNames,
	"namespace": namesOf(corev1.SchemeGroupVersion.WithKind("Namespace"), false),
}

// completeFromServer lets shells complete names of objects, for all verbs below a command
// that talk to a server.
func completeFromServer(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		completeFromServer(cmd)
		if cmd.Flags().Lookup("kubeconfig") == nil || cmd.Flags().Lookup(dataDirFlag) == nil {
			continue
		}
		if find, ok := completedArguments[cmd.CommandPath()]; ok {
			cmd.ValidArgsFunction = completion(find)
		}
		for name, find := range completedFlags {
			if cmd.Flags().Lookup(name) != nil {
				cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, completion(find)))
			}
		}
	}
}

// completion returns the function that a shell calls. It returns no values if the server
// does not answer or refuses: a shell cannot show an error.
func completion(find source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c := connectionOf(cmd)
		config, err := c.clientConfig(io.Discard)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		config.Timeout = completionPatience
		found, err := findValues(ctx, config, find, c.in(flagValue(cmd, "namespace")))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(given, name) }), cobra.ShellCompDirectiveNoFileComp
	}
}

func findValues(ctx context.Context, config *rest.Config, find source, namespace string) ([]string, error) {
	api, err := explain.Connect(config)
	if err != nil {
		return nil, err
	}
	return find(ctx, api, namespace)
}

// connectionOf returns the connection that the flags of a verb describe.
func connectionOf(cmd *cobra.Command) *connection {
	return &connection{kubeconfig: flagValue(cmd, "kubeconfig"), context: flagValue(cmd, "context"), dataDir: flagValue(cmd, dataDirFlag)}
}

// flagValue returns the value of a flag, or "" if the verb lacks the flag.
func flagValue(cmd *cobra.Command, name string) string {
	if flag := cmd.Flags().Lookup(name); flag != nil {
		return flag.Value.String()
	}
	return ""
}

// namesOf returns the source of the names of a kind.
func namesOf(kind schema.GroupVersionKind, namespaced bool) source {
	return func(ctx context.Context, api explain.Reader, namespace string) ([]string, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		var options []client.ListOption
		if namespaced {
			options = append(options, client.InNamespace(namespace))
		}
		if err := api.List(ctx, list, options...); err != nil {
			return nil, err
		}
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		return names, nil
	}
}

// signerNames returns the signers of Kubernetes and those declared by the server's
// Signers.
func signerNames(ctx context.Context, api explain.Reader, _ string) ([]string, error) {
	names := wellKnownSigners()
	declared := &v1alpha1.SignerList{}
	if err := api.List(ctx, declared); err != nil && !meta.IsNoMatchError(err) {
		return names, nil // users without the right to list Signers get these
	}
	for _, signer := range declared.Items {
		if !slices.Contains(names, signer.Spec.SignerName) {
			names = append(names, signer.Spec.SignerName)
		}
	}
	return append(names, readymade.Server), nil
}

// undecidedNames returns the requests that the caller may decide. Requests with the same
// name get their kind as a prefix.
func undecidedNames(ctx context.Context, api explain.Reader, namespace string) ([]string, error) {
	found, err := inbox.List(ctx, api, inbox.Query{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, e := range found.Requests {
		count[e.Name]++
	}
	var names []string
	for _, e := range found.Requests {
		switch {
		case !e.ForYou():
		case count[e.Name] > 1:
			names = append(names, e.Called())
		default:
			names = append(names, e.Name)
		}
	}
	return names, nil
}
