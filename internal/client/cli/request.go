package cli

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/kubeconfig"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/request"
	"github.com/certplane/certplane/internal/client/cli/token"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
)

const requestLong = `Obtains a certificate: makes a private key, submits a CertificateSigningRequest
for it, waits for approval and signature, and writes

  DIR/tls.key  the private key (mode 0600), before the request is submitted
  DIR/tls.crt  the certificate and its chain

A private key is never overwritten. To renew a certificate or to continue an
interrupted run, name the key with --key; together with --name, a request that
was submitted before with that key is continued.

Without --usage, certificates from kubernetes.io/kubelet-serving, and certificates
with --dns or --ip from unknown signers, are for "server auth", all others for
"client auth". "digital signature" is added, and "key encipherment" for RSA keys.

The server is the one in the first of these that exists: --kubeconfig,
admin.kubeconfig in the folder of --data-dir, $KUBECONFIG, admin.kubeconfig in the
default data folder, ~/.kube/config.

Exit codes: 0 issued, 1 error, 2 wrong usage, 3 denied, 4 failed at the signer,
5 not issued in time, 130 interrupted.`

const requestExample = `  # A certificate for a web server, approved at once
  certplane request --signer server --dns web.example.com --ip 10.0.0.7 --out web --approve

  # A client certificate for the server itself, approved at once
  certplane request --signer kubernetes.io/kube-apiserver-client --cn alice --org dev --out alice --approve

  # From a signer of your own; another user approves it
  certplane request --signer example.com/web --cn web --dns web.example.com --ip 10.0.0.7 --expires 24h --out web

  # The same as a manifest for kubectl
  certplane request --signer example.com/web --cn web --out web --dry-run client | certplane kubectl create -f -`

// NewRequest returns the request verb.
func NewRequest(streams genericiooptions.IOStreams) *cobra.Command {
	f := defaultRequestFlags()
	cmd := &cobra.Command{
		Use:               "request --signer NAME --cn CN",
		Short:             "Obtain a certificate: create a key and a request, and wait for the certificate",
		Long:              requestLong,
		Example:           requestExample,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(cmd.Flags())
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg.Connect = func() (request.Requests, error) { return f.connection.requests(streams.ErrOut) }
			cfg.Signers = f.connection.declaredSigners
			cfg.Again = func(name, keyFile string) string { return againCommand(cmd, name, keyFile) }
			cfg.Explain = func(name string) string {
				return f.connection.lineOn([]string{name}, "explain", "csr")
			}
			if f.kubeconfigOut.Path != "" {
				cfg.Deliver = func(chain []*x509.Certificate, key crypto.Signer) error {
					return f.writeKubeconfig(chain, key, streams)
				}
			}
			cfg.Now = time.Now
			cfg.Stdout, cfg.Stderr = streams.Out, streams.ErrOut
			return request.Run(cmd.Context(), cfg)
		},
	}
	f.addTo(cmd.Flags())
	f.completeValues(cmd)
	return cmd
}

// writeKubeconfig writes the kubeconfig of the user that the certificate names.
func (f *requestFlags) writeKubeconfig(chain []*x509.Certificate, key crypto.Signer, streams genericiooptions.IOStreams) error {
	config, err := f.connection.clientConfig(io.Discard)
	if err != nil {
		return err
	}
	data, err := kubeconfig.ForCertificate(chain, key, at(config, f.server))
	if err != nil {
		return err
	}
	if err := f.kubeconfigOut.Write(data); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if f.output == "" {
		fmt.Fprintf(streams.Out, "wrote %s: the kubeconfig of user %s\n", f.kubeconfigOut.Path, print.Printable(chain[0].Subject.CommonName))
	}
	return nil
}

// requestFlags are the request verb's flags as they are typed.
type requestFlags struct {
	signer, cn             string
	orgs, dns, ips, emails []string
	uris, usages           []string
	expires                time.Duration

	name, key, keyType, out string
	approve                 bool
	wait                    time.Duration
	dryRun, output          string
	kubeconfigOut           token.Place
	server                  string
	connection              connection
}

func defaultRequestFlags() requestFlags {
	return requestFlags{kubeconfigOut: token.Place{Final: true}, keyType: string(pki.ECDSAP256), wait: 2 * time.Minute, dryRun: string(request.DryRunNone)}
}

func (f *requestFlags) addTo(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.signer, "signer", f.signer, "Name of the signer, like kubernetes.io/kube-apiserver-client; server is short for certplane.dev/server. Required.")
	flags.StringVar(&f.cn, "cn", f.cn, "Common name of the subject; for a client of the API its user name.")
	flags.StringArrayVar(&f.orgs, "org", f.orgs, "Organization of the subject; for a client of the API a group. Repeatable.")
	flags.StringSliceVar(&f.dns, "dns", f.dns, "DNS name. Repeatable.")
	flags.StringSliceVar(&f.ips, "ip", f.ips, "IP address. Repeatable.")
	flags.StringArrayVar(&f.uris, "uri", f.uris, "URI, like spiffe://example.org/web. Repeatable.")
	flags.StringSliceVar(&f.emails, "email", f.emails, "E-mail address. Repeatable.")
	flags.StringSliceVar(&f.usages, "usage", f.usages, "Usage of the certificate, like 'client auth'. Repeatable.")
	duration.Var(flags, &f.expires, "expires", f.expires, "Lifetime to request, like 1h; at least 10m. Default: the signer decides.")

	flags.StringVar(&f.name, "name", f.name, "Name of the request. Default: the server generates one.")
	flags.StringVar(&f.key, "key", f.key, "File with the private key to use. Default: a new key.")
	flags.StringVar(&f.keyType, "key-type", f.keyType, "Type of a new key: "+keyTypeNames()+".")
	flags.StringVar(&f.out, "out", f.out, "Folder for tls.key and tls.crt. Default: the current folder.")
	flags.StringVar(&f.kubeconfigOut.Path, "kubeconfig-out", "", "File for a kubeconfig with key and certificate, created with mode 0600. It must not exist.")
	flags.StringVar(&f.server, "server", "", "URL of the server in that kubeconfig. Default: the URL that this command uses.")
	flags.BoolVar(&f.approve, "approve", f.approve, "Approve the request immediately. Requires the permission to approve for the signer.")
	duration.Var(flags, &f.wait, "wait", f.wait, "Time to wait for the certificate. 0 only submits the request.")
	flags.StringVar(&f.dryRun, "dry-run", f.dryRun, "Send no request: client (print it) or server (let the server check it). none sends it.")
	flags.StringVarP(&f.output, "output", "o", f.output, "Print the request as yaml or json. Default of a dry run: yaml.")
	f.connection.addTo(flags)
}

// completeValues adds shell completion for flags with only a few values.
func (f *requestFlags) completeValues(cmd *cobra.Command) {
	for flag, values := range map[string][]string{
		"key-type": keyTypeList(),
		"dry-run":  {"none", "client", "server"},
		"output":   {"yaml", "json"},
		"usage":    {"client auth", "server auth", "digital signature", "key encipherment"},
	} {
		// It fails only for flags that do not exist, so any test finds that
		// error.
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
}
