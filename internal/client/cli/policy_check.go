package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/check"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/duration"
)

const policyCheckLong = `Prints the decision of certificate policies on a request, without creating it.

FILE is a CertificateSigningRequest, a PodCertificateRequest, a CertificateRequest,
a Certificate (the decision is on the request that would be created for it), or a
PKCS#10 request in PEM; - is the standard input. A PKCS#10 request does not name its
signer: give --signer. With --namespace it becomes a CertificateRequest if the signer
is an issuer. Flags take precedence over fields of objects.

Policies and facts are read from the server, or with --policies from files, without a
server. Missing facts are listed, and never guessed: the decision is then unknown. The
requester is you, unless the object or a flag names another user.

It requires list on certificatepolicies and certificatepolicyexceptions, create on
subjectaccessreviews, and get on the namespaces, nodes, pods, serviceaccounts and
certificates that policies read.

Exit codes: 0 not denied: approved (Approve), no policy decides and a user with the
right may approve (Leave), or approved once people agree (NeedPeople); 1 denied (Deny);
2 unknown, because a fact is missing or a policy is invalid (Wait), or another error.
If any of several requests is denied, the exit code is 1.`

const policyCheckExample = `  # Would the server approve this request?
  certplane policy check request.yaml
  # Without a server, a request that openssl has made
  certplane policy check web.csr --policies policies/ --facts facts.yaml \
    --signer clusterissuers.cert-manager.io/internal --namespace shop --as-serviceaccount shop/deployer
  # And if it asked for a year?
  certplane policy check certificate.yaml --policies policies/ --duration 365d`

// checkFlags are the flags of "policy check".
type checkFlags struct {
	source         policySource
	options        requests.Options
	kind           string
	as             string
	groups         []string
	serviceAccount string
	length         time.Duration
	ownSigner      bool
	output         string
}

func newPolicyCheck(streams genericiooptions.IOStreams) *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Short:   "Show the decision of policies on a request, without creating it",
		Long:    policyCheckLong,
		Example: policyCheckExample,
		RunE: policyRun(func(cmd *cobra.Command, files []string) error {
			if err := f.complete(cmd, files); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			found, err := f.source.open(cmd.Context(), warnOnce(streams.ErrOut))
			if err != nil {
				return err
			}
			f.options.Whoami = nobody
			if found.whoami != nil {
				f.options.DefaultNamespace = f.source.connection.in("")
				f.options.Whoami = sync.OnceValues(found.whoami)
			}
			return check.Run(cmd.Context(), check.Config{
				Files: files, Stdin: streams.In, Options: f.options, OwnSigner: f.ownSigner,
				Set: found.set, Facts: found.facts, Now: time.Now(), Output: f.output, Stdout: streams.Out,
			})
		}),
	}
	f.addTo(cmd)
	return cmd
}

// warnOnce returns a function that writes errors as warnings, each once.
func warnOnce(out io.Writer) func(error) {
	written := map[string]bool{}
	return func(err error) {
		if text := err.Error(); !written[text] {
			written[text] = true
			fmt.Fprintf(out, "Warning: %s\n", text)
		}
	}
}

func (f *checkFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.source.addTo(flags)
	f.addRequestTo(flags)
	addOutput(cmd, &f.output)
	f.source.connection.addTo(flags)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindNames(), cobra.ShellCompDirectiveNoFileComp)))
}

func (f *checkFlags) addRequestTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.Signer, "signer", "", "Signer or issuer, such as kubernetes.io/kube-apiserver-client, issuers.cert-manager.io/NAMESPACE.NAME or clusterissuers.cert-manager.io/NAME.")
	flags.StringVarP(&f.options.Namespace, "namespace", "n", "", "Namespace of objects that name none. It makes a PKCS#10 request for an issuer a CertificateRequest.")
	flags.StringVar(&f.kind, "kind", "", "Kind of the request, for a PKCS#10 request.")
	flags.StringVar(&f.as, "as", "", "User name of the requester.")
	flags.StringArrayVar(&f.groups, "as-group", nil, "Group of the user, in addition to system:authenticated. Repeatable.")
	flags.StringVar(&f.serviceAccount, "as-serviceaccount", "", "Service account of the requester, as NAMESPACE/NAME.")
	flags.StringSliceVar(&f.options.Usages, "usages", nil, "Requested usages, such as 'digital signature,server auth'.")
	duration.Var(flags, &f.length, "duration", 0, "Requested lifetime, such as 2160h or 90d.")
	flags.BoolVar(&f.options.CA, "ca", false, "Request the certificate of a CA.")
	flags.BoolVar(&f.ownSigner, "own-signer", false, "Treat the signer as one of certplane's, which sets and shortens lifetimes as policies require.")
}

// complete validates the flags, and builds the options from them.
func (f *checkFlags) complete(cmd *cobra.Command, files []string) error {
	if len(files) == 0 {
		return errors.New("name the files with requests, or - for the standard input")
	}
	if err := print.CheckFormat(f.output); err != nil {
		return err
	}
	var err error
	if f.options.Kind, err = requests.ParseKind(f.kind); err != nil {
		return fmt.Errorf("--kind: %w", err)
	}
	if cmd.Flags().Changed("duration") {
		if f.length <= 0 {
			return fmt.Errorf("--duration: %v must be more than zero", f.length)
		}
		f.options.Duration = &f.length
	}
	f.options.As, err = f.requester()
	f.options.Controller = facts.Controller()
	return err
}

// nobody returns an error: without a server, an object without a requester needs a flag.
func nobody() (request.Requester, error) {
	return request.Requester{}, errors.New("the requester is unknown: name the user with --as or --as-serviceaccount")
}

func (f *checkFlags) requester() (*request.Requester, error) {
	switch {
	case f.as != "" && f.serviceAccount != "":
		return nil, errors.New("use either --as or --as-serviceaccount")
	case f.serviceAccount != "":
		account, err := requests.ServiceAccount(f.serviceAccount)
		if err != nil {
			return nil, fmt.Errorf("--as-serviceaccount: %w", err)
		}
		account.Groups = append(account.Groups, f.groups...)
		return &account, nil
	case f.as != "":
		return new(request.User(f.as, f.groups...)), nil
	case len(f.groups) > 0:
		return nil, errors.New("--as-group needs --as")
	}
	return nil, nil
}

func kindNames() []string {
	var names []string
	for _, kind := range requests.Kinds {
		names = append(names, string(kind))
	}
	return names
}
