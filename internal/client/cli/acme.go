package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/client/cli/acmeissuer"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/process/buildinfo"
)

const acmeCheckLong = `Checks, without ordering anything, whether an ACME issuer could get a certificate for
names: the directory of the CA, the account and its external account, the profile,
the solver chosen for each name, whether CAA records let the CA issue, whether port 80
or 443 of each address answers, and whether all name servers do. It prints one line per
check: ok, warning or failed, and the next step.

It changes nothing, neither in the cluster nor at the CA. Checks run from this computer:
to see what the controllers see, run it where they run. It requires get on the issuer;
without get on the Secret with the account's key, the account is not checked.

Exit codes: 0 no check failed, 1 a check failed, or another error, 2 wrong usage.`

const acmeThumbprintLong = `Prints the thumbprint of the key of an ACME issuer's account. With it, a web server can
answer all HTTP-01 challenges of the account without a solver: the answer for the path
/.well-known/acme-challenge/TOKEN is TOKEN, a dot and the thumbprint (RFC 8555 section
8.1). The thumbprint is not secret. It requires get on the issuer and on the Secret with
the account's key.

Exit codes: 0 printed, 1 error, 2 wrong usage.`

// NewACME returns the acme verb with its subcommands.
func NewACME(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "acme", Short: "Run an ACME server for clients such as certbot, and check ACME issuers",
		Long: `Verbs for certplane's own ACME server, which issues certificates to certbot, lego and
other clients (endpoints, credentials, allow, approve, revoke, trust), and for issuers
that get certificates from other ACME servers (check, thumbprint).`,
	}
	cmd.AddCommand(newACMEEndpoints(streams), newACMECredentials(streams), newACMEAllow(streams), newACMEApprove(streams), newACMERevoke(streams), newACMETrust(streams),
		newACMECheck(streams), newACMEThumbprint(streams))
	return cmd
}

// acmeFlags are the flags that name an issuer.
type acmeFlags struct {
	connection       connection
	namespace        string
	clusterIssuer    bool
	clusterResources string
	format           string
}

func (f *acmeFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	addNamespace(flags, &f.namespace, "the Issuer")
	flags.BoolVar(&f.clusterIssuer, "cluster-issuer", false, "Take the name as a ClusterIssuer. Default: the Issuer with this name, or else the ClusterIssuer.")
	flags.StringVar(&f.clusterResources, "cluster-resource-namespace", "", "Namespace of the Secrets of ClusterIssuers. Default: the usual ones are tried.")
}

// addConnection adds the last flags.
func (f *acmeFlags) addConnection(cmd *cobra.Command) {
	addOutput(cmd, &f.format)
	f.connection.addTo(cmd.Flags())
}

// source returns the issuer that the flags name. Its error is a usage error.
func (f *acmeFlags) source(streams genericiooptions.IOStreams, args []string) (acmeissuer.Source, error) {
	if err := checkOne("issuer", args, f.format); err != nil {
		return acmeissuer.Source{}, err
	}
	name, kind := args[0], ""
	if prefix, alone, found := strings.Cut(name, "/"); found {
		name = alone
		switch strings.ToLower(strings.TrimSuffix(prefix, ".cert-manager.io")) {
		case "issuer", "issuers":
			kind = cmv1.IssuerKind
		case "clusterissuer", "clusterissuers":
			kind = cmv1.ClusterIssuerKind
		default:
			return acmeissuer.Source{}, fmt.Errorf("%q is not the name of an issuer: use NAME, issuer/NAME or clusterissuer/NAME", args[0])
		}
	}
	if f.clusterIssuer {
		if kind == cmv1.IssuerKind {
			return acmeissuer.Source{}, fmt.Errorf("%s and --cluster-issuer cannot go together", args[0])
		}
		kind = cmv1.ClusterIssuerKind
	}
	return acmeissuer.Source{
		Kind: kind, Namespace: f.connection.in(f.namespace), Name: name, ClusterResources: f.clusterResources, Output: f.format,
		Connect: f.connection.api, UserAgent: userAgent("certplane", buildinfo.Read().Version), Stdout: streams.Out,
		Kubectl: func(words ...string) []string {
			return append(append([]string{"certplane", "kubectl"}, f.connection.given()...), words...)
		},
	}, nil
}

func newACMECheck(streams genericiooptions.IOStreams) *cobra.Command {
	var flags acmeFlags
	var domains, nameservers []string
	var profile, selector string
	cmd := &cobra.Command{
		Use: "check ISSUER", Short: "Check whether an ACME issuer could get a certificate for names", Long: acmeCheckLong,
		Example: "  certplane acme check letsencrypt --cluster-issuer --domain www.example.com\n  certplane acme check issuer/internal -n shop --domain shop.example.com --domain '*.shop.example.com' -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := flags.source(streams, args)
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg := acmeissuer.CheckConfig{
				Source: source, Domains: domains, Profile: profile,
				Network:  selfcheck.Network{Resolver: selfcheck.NewResolver(nameservers)},
				Resolver: resolver.New(resolver.Config{Nameservers: nameservers, Clock: clock.RealClock{}}),
			}
			if cfg.Labels, err = checkACMEFlags(domains, nameservers, selector); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return acmeissuer.Run(cmd.Context(), cfg)
		},
	}
	flags.addTo(cmd)
	cmd.Flags().StringSliceVar(&domains, "domain", nil, "DNS name or IP address to check. Repeatable. Without it, only the issuer is checked.")
	cmd.Flags().StringVar(&profile, "profile", "", "Certificate profile, as in the annotation acme.certplane.dev/profile. Default: the issuer's profile.")
	cmd.Flags().StringVarP(&selector, "labels", "l", "", "Labels of the Certificate, such as app=web, for the selectors of solvers.")
	cmd.Flags().StringSliceVar(&nameservers, "nameservers", nil, "Recursive name servers, ADDRESS:PORT. Default: those of this computer.")
	flags.addConnection(cmd)
	return cmd
}

func newACMEThumbprint(streams genericiooptions.IOStreams) *cobra.Command {
	var flags acmeFlags
	cmd := &cobra.Command{
		Use: "thumbprint ISSUER", Short: "Print the thumbprint of an ACME account, for web servers that answer challenges", Long: acmeThumbprintLong,
		Example: "  certplane acme thumbprint letsencrypt --cluster-issuer\n  certplane acme thumbprint internal -n shop -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := flags.source(streams, args)
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return acmeissuer.PrintThumbprint(cmd.Context(), source)
		},
	}
	flags.addTo(cmd)
	flags.addConnection(cmd)
	return cmd
}

// checkACMEFlags validates the flags and parses the labels.
func checkACMEFlags(domains, nameservers []string, selector string) (map[string]string, error) {
	for _, domain := range domains {
		if err := checkDomain(domain); err != nil {
			return nil, fmt.Errorf("--domain: %q %w", domain, err)
		}
	}
	if err := selfcheck.CheckNameservers("--nameservers", nameservers); err != nil {
		return nil, err
	}
	if selector == "" {
		return nil, nil
	}
	set, err := labels.ConvertSelectorToLabelsMap(selector)
	if err != nil {
		return nil, fmt.Errorf("--labels: %w", err)
	}
	return set, nil
}

func checkDomain(domain string) error {
	if _, err := netip.ParseAddr(domain); err == nil {
		return nil
	}
	if strings.Contains(domain, "://") {
		return errors.New("is a URL: give only the name")
	}
	// Names with an underscore get a warning, as CAs refuse them.
	plain := strings.ReplaceAll(strings.TrimPrefix(domain, "*."), "_", "x")
	if problems := validation.IsDNS1123Subdomain(plain); len(problems) > 0 {
		return errors.New("is not a DNS name in lower case, such as www.example.com, or an IP address")
	}
	return nil
}
