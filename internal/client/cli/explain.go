package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// explainLong returns the long help of a verb that explains objects of a kind: its
// output, and the permissions that it needs.
func explainLong(tells, needs, kind string) string {
	return fmt.Sprintf(`%s

It works with any Kubernetes API server and changes nothing. Facts that you may not
read are shown as unknown. It requires %s.

Exit codes: 0 explained, whatever the state of the %s, 1 error, 2 wrong usage.`, tells, needs, kind)
}

// NewExplain returns the explain verb with its subcommands.
func NewExplain(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain the state of a request, a Certificate, an Order, a Challenge or a signer",
	}
	for _, kind := range slices.Concat(explainedKubernetes(), explainedCertManager(), explainedACME(), explainedACMEServer()) {
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
				Long: explainLong(`Explains the state of a certificate signing request: the requested names and usages,
whether a person must approve it, missing permissions, whether its signer would
accept it, the reports of controllers, and the next step.`,
					"get on the request, and to check the permissions\nof other users create on subjectaccessreviews.authorization.k8s.io", "request"),
				Example: "  certplane explain csr node-csr-x7Lw\n  certplane explain csr alice -o json",
			},
		},
		{
			kind: "signer", run: explain.Signer,
			cmd: cobra.Command{
				Use: "signer NAME", Short: "Explain a signer's certificates, and the requests that wait for it",
				Long: explainLong(`Explains a signer: the statements that KEP-1513 requires of every signer, the accounts
that may sign for it, and the requests that wait for it; for a signer declared by a
Signer also its CA, and how many certificates it has issued and refused. NAME is the
name of the signer or of its Signer.`,
					"get or list on signers.certplane.dev, if the server\nserves them", "signer"),
				Example: "  certplane explain signer spiffe\n  certplane explain signer kubernetes.io/kubelet-serving\n  certplane explain signer spiffe -o json",
			},
		},
		{
			kind: "Revocation", run: explain.Revocation, alone: true,
			cmd: cobra.Command{
				Use: "revocation NAME", Aliases: []string{"revocations"}, Short: "Explain what a Revocation has revoked, and where this is known",
				Long: explainLong(`Explains a Revocation: who revoked how many certificates, when and why, whether the
server refuses them, and whether all revocation lists have them.`, "get on the Revocation", "Revocation"),
				Example: "  certplane explain revocation web-example-com-x7lw2",
			},
		},
		{
			kind: "pod certificate request", run: explain.PodCertificateRequest, namespaced: true, byPolicies: true,
			cmd: cobra.Command{
				Use: "podcertificaterequest NAME", Aliases: []string{"pcr", "podcertificaterequests"}, Short: "Explain the state of a pod's certificate request",
				Long: explainLong(`Explains the state of a pod's certificate request: whether its signer is
declared and ready, whether its statements about the pod are true, what the signer's
profile grants or refuses, the accounts that may sign, and the answer.`,
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
				Long: explainLong(`Explains the state of a CertificateRequest of cert-manager.io: whether a person must
approve it, missing permissions, whether its issuer can sign, the answer, and the
next step.`,
					"get on the request", "request"),
				Example: "  certplane explain certificaterequest -n shop web-1\n  certplane explain cr -n shop web-1 -o json",
			},
		},
		{
			kind: "Certificate", run: explain.IssuedCertificate, namespaced: true,
			cmd: cobra.Command{
				Use: "certificate NAME", Aliases: []string{"cert", "certificates"}, Short: "Explain the state of a Certificate",
				Long: explainLong(`Explains the state of a Certificate of cert-manager.io: whether it is ready, what
its next certificate waits for, whether its Secret exists and belongs to it, the delay
after a failure, whether its issuer can sign, and the next step. It reads only the
metadata of Secrets, and no keys.`,
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
				Long: explainLong(`Explains the state of an Order of an ACME issuer: what it waits for, the names that
the CA has validated, the solver chosen for each other name and why not another one,
the reports of controllers, and the next step.`,
					"get on the Order, and to see its\nChallenges and solvers list on challenges and get on the issuer", "Order"),
				Example: "  certplane explain order -n shop web-1-2029063428\n  certplane explain order -n shop web-1-2029063428 -o json",
			},
		},
		{
			kind: "Challenge", run: explain.Challenge, namespaced: true,
			cmd: cobra.Command{
				Use: "challenge NAME", Aliases: []string{"challenges"}, Short: "Explain the state of a Challenge of an ACME issuer",
				Long: explainLong(`Explains the state of a Challenge of an ACME issuer: what it waits for, the URL, TXT
record or server that the CA checks and the content that it expects, commands to check
it yourself, why this solver was chosen, and the next step.`,
					"get on the Challenge, and to see why its\nsolver was chosen get on its Order and its issuer", "Challenge"),
				Example: "  certplane explain challenge -n shop web-1-2029063428-1938036228\n  certplane explain challenge -n shop web-1-2029063428-1938036228 -o json",
			},
		},
	}
}

// explainedACMEServer returns the kinds of certplane's own ACME server.
func explainedACMEServer() []explained {
	return []explained{
		{
			kind: "AcmeOrder", run: explain.ACMEOrder, namespaced: true, qualified: true, byPolicies: true,
			cmd: cobra.Command{
				Use: "acmeorder NAME", Aliases: []string{"acmeorders"}, Short: "Explain the state of an order of an ACME client",
				Long: explainLong(`Explains an order of an ACME client: whether its account is valid, the rights of its
ServiceAccount, the validated names and the outcome of each challenge, the state of its
request and the users who may approve it, and the next step. NAME can be NAMESPACE/NAME.`,
					"get on the order, and to see its\naccount, endpoint and request get on these", "order"),
				Example: "  certplane explain acmeorder shop/4kq2x7vbn3mzr5tw6ysd2fghjk\n  certplane explain acmeorder -n shop 4kq2x7vbn3mzr5tw6ysd2fghjk -o json",
			},
		},
		{
			kind: "AcmeEndpoint", run: explain.ACMEEndpoint, alone: true,
			cmd: cobra.Command{
				Use: "acmeendpoint NAME", Aliases: []string{"acmeendpoints"}, Short: "Explain whether an endpoint of the ACME server works",
				Long: explainLong(`Explains an endpoint of the ACME server: whether it accepts orders, whether its signers
can sign, whether its approvals have an effect, and missing rights.`, "get on the endpoint", "endpoint"),
				Example: "  certplane explain acmeendpoint corp",
			},
		},
		{
			kind: "AcmeAccount", run: explain.ACMEAccount, alone: true,
			cmd: cobra.Command{
				Use: "acmeaccount NAME", Aliases: []string{"acmeaccounts"}, Short: "Explain whether an account of an ACME client can order",
				Long: explainLong(`Explains an account of an ACME client: whether it is valid, waits for a person,
or has ended with its external key, and its rights.`, "get on the account, and for more details\nget on its endpoint and external key", "account"),
				Example: "  certplane explain acmeaccount 4kq2x7vbn3mzr5tw6ysd2fghjk",
			},
		},
		{
			kind: "AcmeExternalKey", run: explain.ACMEExternalKey, namespaced: true, qualified: true,
			cmd: cobra.Command{
				Use: "acmeexternalkey NAME", Aliases: []string{"acmeexternalkeys"}, Short: "Explain whether accounts can be created with an external key",
				Long: explainLong(`Explains an external key of the ACME server: whether accounts can be created with
it, whether the server may act as its ServiceAccount and holds its Secret, and missing
rights. It reads no Secrets. NAME can be NAMESPACE/NAME.`, "get on the external key", "key"),
				Example: "  certplane explain acmeexternalkey -n shop fleet",
			},
		},
	}
}

// explained is a kind whose objects can be explained one at a time.
type explained struct {
	kind       string
	namespaced bool
	// byPolicies: certificate policies decide requests of the kind.
	byPolicies bool
	// alone refuses kubectl's KIND/NAME.
	alone bool
	// qualified takes NAMESPACE/NAME.
	qualified bool
	run       func(context.Context, explain.Config) error
	cmd       cobra.Command
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
		name := args[0]
		if where, alone, found := strings.Cut(name, "/"); found && what.qualified {
			if namespace != "" && namespace != where {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("%s is not in the namespace %s: omit --namespace", name, namespace))
			}
			namespace, name = where, alone
		}
		return what.run(cmd.Context(), explain.Config{
			Name: name, Namespace: connection.in(namespace), Controllers: outside.namespace, Output: format,
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

// checkOne returns an error if the arguments of a verb for one object are
// invalid.
func checkOne(kind string, args []string, format string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("name one %s", kind)
	}
	return print.CheckFormat(format)
}
