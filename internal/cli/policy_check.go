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

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/policy/check"
	"github.com/certplane/certplane/internal/cli/policy/facts"
	"github.com/certplane/certplane/internal/cli/policy/requests"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/duration"
	"github.com/certplane/certplane/internal/policy/request"
)

const policyCheckLong = `Says what certificate policies decide about a request, without creating it.

FILE is a CertificateSigningRequest, a PodCertificateRequest, a CertificateRequest,
a Certificate (then the request that would be made for it is decided about), or a
PKCS#10 request in PEM; - is the standard input. A PKCS#10 request says nothing
about its signer: --signer must, and --namespace makes it a CertificateRequest if
the signer is an issuer. Flags take precedence over what objects say.

Policies and what they read are those of the server, or with --policies those of
files, without a server. Facts that are missing are listed, and never guessed: then
it is not known what would be decided. If nothing says who requests, it is you.

It requires list on certificatepolicies and certificatepolicyexceptions, create on
subjectaccessreviews, and get on the namespaces, nodes, pods, serviceaccounts and
certificates that policies read.

Exit codes: 0 not denied: it would be approved (Approve), left to whoever may approve
(Leave), or approved once people agree (NeedPeople); 1 denied (Deny); 2 it could not
be found out, as a fact is missing or a policy is not valid (Wait), or for another
error. Of several requests, one that is denied counts most.`

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
		Short:   "Say what policies decide about a request, without creating it",
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
	flags.StringVarP(&f.options.Namespace, "namespace", "n", "", "Namespace of objects that name none. With it, a PKCS#10 request for an issuer is a CertificateRequest.")
	flags.StringVar(&f.kind, "kind", "", "Kind of the request, for a PKCS#10 request.")
	flags.StringVar(&f.as, "as", "", "User who requests.")
	flags.StringArrayVar(&f.groups, "as-group", nil, "Group of the user, besides system:authenticated. May be repeated.")
	flags.StringVar(&f.serviceAccount, "as-serviceaccount", "", "Service account that requests, as NAMESPACE/NAME.")
	flags.StringSliceVar(&f.options.Usages, "usages", nil, "Requested usages, such as 'digital signature,server auth'.")
	duration.Var(flags, &f.length, "duration", 0, "Requested lifetime, such as 2160h or 90d.")
	flags.BoolVar(&f.options.CA, "ca", false, "The request is for the certificate of a CA.")
	flags.BoolVar(&f.ownSigner, "own-signer", false, "The signer is one of certplane's, which sets and shortens lifetimes as policies say.")
}

// complete checks the flags, and makes the options of them.
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

// nobody is the requester of an object without one, if there is no server to ask.
func nobody() (request.Requester, error) {
	return request.Requester{}, errors.New("nothing says who requests: name the user with --as or --as-serviceaccount")
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
