package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/acmeserver"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/process/duration"
)

const acmeCredentialsLong = `Shows what an ACME client needs to register an account with an external key: the key
identifier, the directory, the fingerprint of the server's root, and commands or
configuration for certbot, lego, acme.sh, Caddy and cert-manager. The MAC key is a
secret: only --show-key shows it.

With --create it creates the AcmeExternalKey first. The server creates its Secret with a
random key as soon as the owner of the namespace permits it with 'certplane acme allow'.

It requires get on acmeexternalkeys, with --show-key get on the Secret, and with
--create also create, the verb use on the endpoint, and create on
serviceaccounts/token of the ServiceAccount.

Exit codes: 0 shown, 1 error, 2 wrong usage.`

const acmeTrustLong = `Fetches the roots that verify an ACME server's certificate, compares their
fingerprints, and writes them to a file or to the trust store of this host. Without
--fingerprint it shows the server's fingerprints and asks; without a terminal it refuses.

SERVER is the URL of a directory. With a kubeconfig it can be the name of an
AcmeEndpoint; its fingerprint is then read from the API.

Exit codes: 0 written, 1 error, or no root is trusted, 2 wrong usage.`

func newACMECredentials(streams genericiooptions.IOStreams) *cobra.Command {
	var f acmeFor
	var cfg acmeserver.CredentialsConfig
	var made newExternalKey
	var namespace string
	cmd := &cobra.Command{
		Use: "credentials NAME", Short: "Show the data that ACME clients need for an external key", Long: acmeCredentialsLong,
		Example: "  certplane acme credentials -n shop fleet --create --endpoint corp --serviceaccount web --max-accounts 200\n  certplane acme credentials -n shop fleet --client certbot --show-key",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkOne("AcmeExternalKey", args, f.output)
			if err == nil {
				cfg.Create, err = made.spec(cmd.Flags(), args[0])
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if err := namesAlone(cmd, args); err != nil {
				return err
			}
			cfg.Config, cfg.Namespace, cfg.Name = f.config(streams), f.connection.in(namespace), args[0]
			return acmeserver.ShowCredentials(cmd.Context(), cfg)
		},
	}
	return f.verb(cmd, true, func(flags *pflag.FlagSet) {
		addNamespace(flags, &namespace, "the AcmeExternalKey")
		flags.BoolVar(&cfg.ShowKey, "show-key", false, "Show the MAC key, a secret.")
		flags.StringVar(&cfg.Client, "client", "", "Show only the lines for this client: "+strings.Join(acmeserver.ClientNames(), ", ")+".")
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions(acmeserver.ClientNames(), cobra.ShellCompDirectiveNoFileComp)))
		flags.StringVar(&cfg.Domain, "domain", "", "DNS name in the lines for clients. Default: a name that the key permits.")
		flags.StringVar(&cfg.Roots, "roots", "roots.pem", "File with the server's roots in the lines for clients, as 'certplane acme trust' writes it.")
		made.addTo(flags)
		duration.Var(flags, &cfg.Wait, "wait", 10*time.Second, "Time to wait until the created key can be used, with --create.")
	})
}

// newExternalKey holds the flags for an AcmeExternalKey to create.
type newExternalKey struct {
	create                          bool
	endpoint, serviceAccount, after string
	secret                          string
	allow, preauthorize, profiles   []string
	wildcards                       bool
	maxAccounts                     int32
}

func (n *newExternalKey) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&n.create, "create", false, "Create the AcmeExternalKey; the next flags configure it.")
	flags.StringVar(&n.endpoint, "endpoint", "", "AcmeEndpoint of the key.")
	flags.StringVar(&n.serviceAccount, "serviceaccount", "", "ServiceAccount in the namespace; accounts of this key act as it.")
	flags.StringVar(&n.secret, "secret", "", "Secret for the MAC key. Default: acme-NAME.")
	flags.StringSliceVar(&n.allow, "allow", nil, "Names that the key permits, such as *.shop.example.com. Default: all names of the endpoint.")
	flags.StringSliceVar(&n.preauthorize, "preauthorize", nil, "Names that need no challenge.")
	flags.BoolVar(&n.wildcards, "preauthorize-wildcards", false, "Let wildcards of these names need no challenge either.")
	flags.StringSliceVar(&n.profiles, "profile", nil, "Profiles of the endpoint that the key permits. Default: all.")
	flags.Int32Var(&n.maxAccounts, "max-accounts", 0, "Maximum number of accounts for the key: 1 for a key to use once, 0 for no limit.")
	flags.StringVar(&n.after, "expires-after", "", "Time after which the key accepts no new accounts, such as 720h. Default: no limit.")
}

// spec returns the key to create, or nil without --create.
func (n *newExternalKey) spec(flags *pflag.FlagSet, name string) (*v1alpha1.AcmeExternalKeySpec, error) {
	if !n.create {
		for _, of := range []string{"endpoint", "serviceaccount", "secret", "allow", "preauthorize", "preauthorize-wildcards", "profile", "max-accounts", "expires-after"} {
			if flags.Changed(of) {
				return nil, fmt.Errorf("--%s configures a new AcmeExternalKey: add --create", of)
			}
		}
		return nil, nil
	}
	if n.endpoint == "" || n.serviceAccount == "" {
		return nil, errors.New("a new AcmeExternalKey needs --endpoint and --serviceaccount")
	}
	spec := &v1alpha1.AcmeExternalKeySpec{
		Endpoint: n.endpoint, ServiceAccount: n.serviceAccount, Secret: v1alpha1.AcmeSecret{Name: n.secret}, Profiles: n.profiles, MaxAccounts: n.maxAccounts,
	}
	if spec.Secret.Name == "" {
		spec.Secret.Name = "acme-" + name
	}
	if len(n.allow) > 0 {
		spec.Identifiers = &v1alpha1.AcmeIdentifierSet{DNS: &v1alpha1.AcmeDNSNames{Allow: n.allow}}
	}
	if len(n.preauthorize) > 0 {
		spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: n.preauthorize, Wildcards: n.wildcards}
	}
	if n.after != "" {
		lasts, err := time.ParseDuration(n.after)
		if err != nil || lasts <= 0 {
			return nil, fmt.Errorf("--expires-after: %q is not a time such as 720h", n.after)
		}
		end := metav1.NewTime(time.Now().Add(lasts))
		spec.Expires = &end
	}
	return spec, nil
}

func newACMETrust(streams genericiooptions.IOStreams) *cobra.Command {
	var f acmeFor
	cfg := acmeserver.TrustConfig{Store: acmeserver.SystemStore(), Terminal: terminalOf(streams.In)}
	var system bool
	cmd := &cobra.Command{
		Use: "trust SERVER", Short: "Let this host trust an ACME server, by the fingerprint of its root", Long: acmeTrustLong,
		Example: "  certplane acme trust https://acme.example.com/acme/corp/directory --fingerprint SHA256:9f86d0...\n  certplane acme trust corp --out roots.pem\n  sudo certplane acme trust https://acme.example.com/acme/corp/directory --fingerprint SHA256:9f86d0... --system",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkOne("server", args, "")
			if err == nil && system && cmd.Flags().Changed("out") {
				err = errors.New("--out and --system cannot go together")
			}
			for _, text := range cfg.Fingerprints {
				if err == nil {
					_, err = acmeserver.ParseFingerprint(text)
				}
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if system {
				cfg.Out = ""
			}
			cfg.Config, cfg.Server = f.config(streams), args[0]
			return acmeserver.Trust(cmd.Context(), cfg)
		},
	}
	return f.verb(cmd, false, func(flags *pflag.FlagSet) {
		flags.StringSliceVar(&cfg.Fingerprints, "fingerprint", nil, "SHA-256 fingerprint of the root, as 'certplane acme endpoints' shows it. Separate several by commas.")
		flags.StringVar(&cfg.Out, "out", "roots.pem", "File for the roots.")
		flags.BoolVar(&system, "system", false, "Write the roots to the trust store of this host instead. Requires root.")
	})
}
