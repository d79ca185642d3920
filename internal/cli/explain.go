package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/explain"
	"github.com/certplane/certplane/internal/cli/print"
)

// explainLong returns the long help of a verb that explains objects of a kind:
// what it tells about them, and which permissions it needs.
func explainLong(tells, needs, kind string) string {
	return fmt.Sprintf(`%s

It works with any Kubernetes API server and changes nothing. What you may not read
is shown as unknown. It requires %s.

Exit codes: 0 explained, whatever the state of the %s, 1 error, 2 wrong usage.`, tells, needs, kind)
}

// NewExplain returns the explain verb with its subcommands.
func NewExplain(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain the state of a request, a Certificate, an Order, a Challenge or a signer",
	}
	for _, kind := range slices.Concat(explainedKubernetes(), explainedCertManager(), explainedACME()) {
		cmd.AddCommand(newExplain(streams, kind))
	}
	return cmd
}

// explainedKubernetes returns the kinds of Kubernetes, and signers.
func explainedKubernetes() []explained {
	return []explained{
		{
			kind: "certificate signing request", run: explain.Run, byPolicies: true,
			cmd: cobra.Command{
				Use: "csr NAME", Aliases: []string{"certificatesigningrequest", "certificatesigningrequests"}, Short: "Explain the state of a certificate signing request",
				Long: explainLong(`Explains the state of a certificate signing request: what it asks for, whether it
needs a person to approve it, which permission is missing, whether its signer
would accept it, what controllers reported about it, and what to do next.`,
					"get on the request, and to check the permissions\nof other users create on subjectaccessreviews.authorization.k8s.io", "request"),
				Example: "  certplane explain csr node-csr-x7Lw\n  certplane explain csr alice -o json",
			},
		},
		{
			kind: "signer", run: explain.Signer,
			cmd: cobra.Command{
				Use: "signer NAME", Short: "Explain what a signer issues, and which requests wait for it",
				Long: explainLong(`Explains a signer: what KEP-1513 requires every signer to state, which accounts may
sign for it, and which requests wait for it; for a signer that a Signer declares
also its CA, and how many certificates it has issued and refused. NAME is that of
the signer or of its Signer.`,
					"get or list on signers.certplane.dev, if the server\nhas any", "signer"),
				Example: "  certplane explain signer spiffe\n  certplane explain signer kubernetes.io/kubelet-serving\n  certplane explain signer spiffe -o json",
			},
		},
		{
			kind: "pod certificate request", run: explain.PodCertificateRequest, namespaced: true, byPolicies: true,
			cmd: cobra.Command{
				Use: "podcertificaterequest NAME", Aliases: []string{"pcr", "podcertificaterequests"}, Short: "Explain the state of a pod's certificate request",
				Long: explainLong(`Explains the state of a pod's certificate request: whether a signer is declared for
it and ready, whether what it says about its pod is true, what the signer's profile
grants or refuses, which accounts may sign, and what was answered.`,
					"get on the request", "request"),
				Example: "  certplane explain podcertificaterequest -n shop req-x7lw2\n  certplane explain pcr -n shop req-x7lw2 -o json",
			},
		},
	}
}

// explainedCertManager returns the kinds of cert-manager.io.
func explainedCertManager() []explained {
	return []explained{
		{
			kind: "CertificateRequest", run: explain.CertificateRequest, namespaced: true, byPolicies: true,
			cmd: cobra.Command{
				Use: "certificaterequest NAME", Aliases: []string{"cr", "certificaterequests"}, Short: "Explain the state of a CertificateRequest",
				Long: explainLong(`Explains the state of a CertificateRequest of cert-manager.io: whether a person has
to approve it, which permission is missing, whether its issuer can sign, what was
answered, and what to do next.`,
					"get on the request", "request"),
				Example: "  certplane explain certificaterequest -n shop web-1\n  certplane explain cr -n shop web-1 -o json",
			},
		},
		{
			kind: "Certificate", run: explain.IssuedCertificate, namespaced: true,
			cmd: cobra.Command{
				Use: "certificate NAME", Aliases: []string{"cert", "certificates"}, Short: "Explain the state of a Certificate",
				Long: explainLong(`Explains the state of a Certificate of cert-manager.io: whether it is ready, what
its next certificate waits for, whether its Secret exists and is its own, until when
a failure delays it, whether its issuer can sign, and what to do next. It reads only
the metadata of Secrets, and no keys.`,
					"get on the Certificate", "Certificate"),
				Example: "  certplane explain certificate -n shop web\n  certplane explain cert -n shop web -o json",
			},
		},
	}
}

// explainedACME returns the kinds of acme.cert-manager.io.
func explainedACME() []explained {
	return []explained{
		{
			kind: "Order", run: explain.Order, namespaced: true,
			cmd: cobra.Command{
				Use: "order NAME", Aliases: []string{"orders"}, Short: "Explain the state of an Order of an ACME issuer",
				Long: explainLong(`Explains the state of an Order of an ACME issuer: what it waits for, which names the
CA has validated, which solver was chosen for each of the others and why not another
one, what controllers reported about it, and what to do next.`,
					"get on the Order, and to see its\nChallenges and solvers list on challenges and get on the issuer", "Order"),
				Example: "  certplane explain order -n shop web-1-2029063428\n  certplane explain order -n shop web-1-2029063428 -o json",
			},
		},
		{
			kind: "Challenge", run: explain.Challenge, namespaced: true,
			cmd: cobra.Command{
				Use: "challenge NAME", Aliases: []string{"challenges"}, Short: "Explain the state of a Challenge of an ACME issuer",
				Long: explainLong(`Explains the state of a Challenge of an ACME issuer: what it waits for, which URL, TXT
record or server the CA looks at and what it expects there, commands to look yourself,
why this solver was chosen, and what to do next.`,
					"get on the Challenge, and to see why its\nsolver was chosen get on its Order and its issuer", "Challenge"),
				Example: "  certplane explain challenge -n shop web-1-2029063428-1938036228\n  certplane explain challenge -n shop web-1-2029063428-1938036228 -o json",
			},
		},
	}
}

// explained is a kind whose objects can be explained one at a time.
type explained struct {
	kind       string
	namespaced bool
	// byPolicies: certificate policies decide about it.
	byPolicies bool
	// alone refuses kubectl's KIND/NAME.
	alone bool
	run   func(context.Context, explain.Config) error
	cmd   cobra.Command
}

func newExplain(streams genericiooptions.IOStreams, what explained) *cobra.Command {
	var connection connection
	var format, namespace string
	var outside outsideSource
	cmd := what.cmd
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOne(what.kind, args, format); err != nil {
			return exit.UsageError(cmd.CommandPath(), err)
		}
		if what.alone {
			if err := namesAlone(cmd, args); err != nil {
				return err
			}
		}
		return what.run(cmd.Context(), explain.Config{
			Name: args[0], Namespace: connection.in(namespace), Controllers: outside.namespace, Output: format,
			Connect: connection.api,
			Kubectl: []string{"certplane", "kubectl"}, Flags: connection.given(),
			Now: time.Now, Stdout: streams.Out,
		})
	}
	cmd.Flags().SortFlags = false
	if what.namespaced {
		addNamespace(cmd.Flags(), &namespace, "the "+what.kind)
	}
	if what.byPolicies {
		outside.addNamespaceTo(cmd.Flags())
	}
	addOutput(&cmd, &format)
	connection.addTo(cmd.Flags())
	return &cmd
}

// addOutput adds the flag whose value print.CheckFormat checks.
func addOutput(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "", "One of "+strings.Join(print.Formats, ", ")+". Text for people if not given.")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(print.Formats, cobra.ShellCompDirectiveNoFileComp)))
}

// checkOne returns an error if the arguments of a verb for one object are
// invalid.
func checkOne(kind string, args []string, format string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("name one %s", kind)
	}
	return print.CheckFormat(format)
}
