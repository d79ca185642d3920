package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/cli/certificates"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/duration"
)

const certificatesLong = `Shows the certificates that a server has issued and that have not ended, those that
end first in front: by all signers and issuers, for requests of all kinds.

Flags restrict what is shown; a certificate must fit all of them. 'certplane kubectl get
issuedcertificates' shows the same records, with selectors, and follows them (-w).

It requires list on issuedcertificates.inventory.certplane.dev, as in the ClusterRole
certplane-inventory-view.

Exit codes: 0 shown, also if there is none, 1 error, 2 wrong usage.`

// NewCertificates returns the certificates verb.
func NewCertificates(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var selector string
	cfg := certificates.Config{Limit: 200, Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:   "certificates",
		Short: "List issued certificates: what ends when, who asked for it and who approved",
		Long:  certificatesLong,
		Example: "  certplane certificates --expiring 7d\n  certplane certificates --name web.example.com -o wide\n" +
			"  certplane certificates --serial 1e:2a:77 --ended -o yaml",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := completeCertificates(&cfg, selector)
			if len(args) > 0 {
				err = fmt.Errorf("%q is not a flag: to find certificates by a name, --name %[1]s", args[0])
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg.Now = time.Now()
			cfg.Connect = func() (client.Client, error) {
				config, err := connection.clientConfig(streams.ErrOut)
				if err != nil {
					return nil, err
				}
				return certificates.Connect(config)
			}
			return certificates.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	duration.Var(flags, &cfg.Expiring, "expiring", 0, "Only certificates that end within this time, such as 7d or 12h.")
	flags.StringVar(&cfg.Name, "name", "", "Only certificates with this DNS name, IP address, URI, e-mail address or common name.")
	flags.StringVar(&cfg.Serial, "serial", "", "Only the certificate with this serial number, hexadecimal, with or without colons.")
	flags.StringVar(&cfg.Fingerprint, "fingerprint", "", "Only the certificate with this SHA-256 fingerprint, with or without colons.")
	flags.StringVar(&cfg.Signer, "signer", "", "Only certificates of this signer, such as example.com/hosts or issuers.cert-manager.io/shop.ca.")
	flags.StringVar(&cfg.Requester, "requester", "", "Only certificates that this user has requested.")
	flags.StringVarP(&cfg.Namespace, "namespace", "n", "", "Only certificates for requests in this namespace.")
	flags.StringVarP(&selector, "selector", "l", "", "Only certificates whose labels match: those of their requests, and inventory.certplane.dev/kind, namespace, signer and not-after.")
	flags.BoolVar(&cfg.Ended, "ended", false, "Also certificates that have ended.")
	flags.IntVar(&cfg.Limit, "limit", cfg.Limit, "How many certificates are shown at most.")
	addOutputOf(cmd, &cfg.Output, listFormats, "One of "+strings.Join(listFormats, ", ")+". A table if not given.")
	connection.addTo(flags)
	return cmd
}

// completeCertificates checks and reads flags.
func completeCertificates(cfg *certificates.Config, selector string) error {
	var errs []error
	if cfg.Expiring < 0 {
		errs = append(errs, fmt.Errorf("--expiring is %s, want a time such as 7d", duration.Format(cfg.Expiring)))
	}
	var err error
	if cfg.Selector, err = labels.Parse(selector); err != nil {
		errs = append(errs, fmt.Errorf("--selector: %w", err))
	}
	if cfg.Limit <= 0 {
		errs = append(errs, fmt.Errorf("--limit is %d, want a positive number", cfg.Limit))
	}
	if cfg.Output != "" && !slices.Contains(listFormats, cfg.Output) {
		errs = append(errs, fmt.Errorf("--output is %q, want wide, json or yaml", cfg.Output))
	}
	return errors.Join(errs...)
}
