package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/explain"
	"github.com/certplane/certplane/internal/cli/print"
)

const explainCSRLong = `Tells what becomes of a certificate signing request and why: what it asks for,
whether it needs a person to approve it, what permission is missing, whether its
signer would accept it, what controllers said of it, and what to do next.

It works with any Kubernetes API server and changes nothing. Whoever may read
the request gets an answer; what you may not ask is shown as unknown. To ask
what others may do takes create on subjectaccessreviews.authorization.k8s.io.

Exit codes: 0 explained, whatever became of the request, 1 error, 2 wrong usage.`

const explainCSRExample = `  certplane explain csr node-csr-x7Lw
  certplane explain csr alice -o json`

const explainSignerLong = `Tells what a signer is: what KEP-1513 asks every signer to state, who may sign, and
which requests wait for it; of a signer that a Signer declares also its CA, and
what it has issued and refused. NAME is that of the signer, or of its Signer.

It works with any Kubernetes API server, and changes nothing. It takes get or list
on signers.certplane.dev, where there are any; what you may not ask is shown as
unknown.

Exit codes: 0 explained, 1 error, 2 wrong usage.`

const explainSignerExample = `  certplane explain signer spiffe
  certplane explain signer kubernetes.io/kubelet-serving
  certplane explain signer spiffe -o json`

const explainPodLong = `Tells what becomes of a pod's certificate request and why: whether a signer is
declared for it and ready, whether what it says of its pod is true, what the
signer's profile gives or refuses, who may sign, and what was answered.

It works with any Kubernetes API server and changes nothing. Whoever may read
the request gets an answer; what you may not ask is shown as unknown.

Exit codes: 0 explained, whatever became of the request, 1 error, 2 wrong usage.`

const explainRequestLong = `Tells what becomes of a CertificateRequest of cert-manager.io and why: whether
somebody has to approve it and who may, what right is missing, whether its issuer
can sign, what was answered, and what to do next.

It works with any Kubernetes API server that has the kind, and changes nothing.
Whoever may read the request gets an answer; what you may not ask is shown as
unknown.

Exit codes: 0 explained, whatever became of the request, 1 error, 2 wrong usage.`

const explainRequestExample = `  certplane explain certificaterequest -n shop web-1
  certplane explain cr -n shop web-1 -o json`

const explainCertificateLong = `Tells what becomes of a Certificate of cert-manager.io and why: whether it is
ready, what its next certificate waits for, whether its Secret exists and is its
own, until when a failure holds it back, whether its issuer can sign, and what to
do next. It reads no keys: of Secrets only the metadata.

It works with any Kubernetes API server that has the kind, and changes nothing.
Whoever may read the Certificate gets an answer; what you may not ask is shown as
unknown.

Exit codes: 0 explained, whatever became of the Certificate, 1 error, 2 wrong
usage.`

const explainCertificateExample = `  certplane explain certificate -n shop web
  certplane explain cert -n shop web -o json`

const explainPodExample = `  certplane explain podcertificaterequest -n shop req-x7lw2
  certplane explain pcr -n shop req-x7lw2 -o json`

// NewExplain returns the explain verb with its subcommands.
func NewExplain(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Tell what becomes of a request or a Certificate, and why",
	}
	cmd.AddCommand(
		newExplain(streams, explained{
			kind: "certificate signing request", run: explain.Run,
			cmd: cobra.Command{
				Use: "csr NAME", Aliases: []string{"certificatesigningrequest", "certificatesigningrequests"}, Short: "Tell what becomes of a certificate signing request, and why",
				Long: explainCSRLong, Example: explainCSRExample,
			},
		}),
		newExplain(streams, explained{
			kind: "signer", run: explain.Signer,
			cmd: cobra.Command{
				Use: "signer NAME", Short: "Tell what a signer is and does, and what waits for it",
				Long: explainSignerLong, Example: explainSignerExample,
			},
		}),
		newExplain(streams, explained{
			kind: "pod certificate request", run: explain.PodCertificateRequest, namespaced: true,
			cmd: cobra.Command{
				Use: "podcertificaterequest NAME", Aliases: []string{"pcr", "podcertificaterequests"}, Short: "Tell what becomes of a pod's certificate request, and why",
				Long: explainPodLong, Example: explainPodExample,
			},
		}),
		newExplain(streams, explained{
			kind: "CertificateRequest", run: explain.CertificateRequest, namespaced: true,
			cmd: cobra.Command{
				Use: "certificaterequest NAME", Aliases: []string{"cr", "certificaterequests"}, Short: "Tell what becomes of a CertificateRequest, and why",
				Long: explainRequestLong, Example: explainRequestExample,
			},
		}),
		newExplain(streams, explained{
			kind: "Certificate", run: explain.IssuedCertificate, namespaced: true,
			cmd: cobra.Command{
				Use: "certificate NAME", Aliases: []string{"cert", "certificates"}, Short: "Tell what becomes of a Certificate, and why",
				Long: explainCertificateLong, Example: explainCertificateExample,
			},
		}),
	)
	return cmd
}

// explained is a kind whose objects can be explained, one at a time.
type explained struct {
	kind       string
	namespaced bool
	// alone refuses kubectl's KIND/NAME.
	alone bool
	run   func(context.Context, explain.Config) error
	cmd   cobra.Command
}

func newExplain(streams genericiooptions.IOStreams, what explained) *cobra.Command {
	var connection connection
	var format, namespace string
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
			Name: args[0], Namespace: connection.in(namespace), Output: format,
			Connect: connection.api,
			Kubectl: []string{"certplane", "kubectl"}, Flags: connection.given(),
			Now: time.Now, Stdout: streams.Out,
		})
	}
	cmd.Flags().SortFlags = false
	if what.namespaced {
		addNamespace(cmd.Flags(), &namespace, "the "+what.kind)
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
