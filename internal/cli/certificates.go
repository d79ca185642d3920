package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/cli/certificates"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/duration"
)

const certificatesLong = `Shows the certificates that a server has issued and that have not ended, those that
end first in front: by all signers and issuers, for requests of all kinds.

Flags restrict what is shown; a certificate must fit all of them. Certificates that the
server has issued for itself are only shown with --own, or if flags name what is looked
for: names, numbers, signers or requesters. --since and --until also show certificates that have ended, as far
as the server keeps their records (inventory.keep). 'certplane kubectl get
issuedcertificates' shows the same records, with selectors, and follows them (-w).

It requires list on issuedcertificates.inventory.certplane.dev, as in the ClusterRole
certplane-inventory-view.

Exit codes: 0 shown, also if there is none, 1 error, 2 wrong usage.`

// NewCertificates returns the certificates verb.
func NewCertificates(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var given certificateFlags
	cfg := certificates.Config{Limit: defaultLimit, Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:   "certificates",
		Short: "List issued certificates: what ends when, who asked for it and who approved",
		Long:  certificatesLong,
		Example: "  certplane certificates --expiring 7d\n  certplane certificates --name web.example.com -o wide\n" +
			"  certplane certificates --serial 1e:2a:77 --ended -o yaml\n" +
			"  certplane certificates --under corp.example --approver bob --since 30d -o csv > certificates.csv\n" +
			"  certplane certificates --weaker-than RSA-3072 --longer-than 90d\n  certplane certificates --revoked --since 30d",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Now = time.Now()
			err := given.complete(&cfg, cmd.Flags().Changed("limit"))
			if len(args) > 0 {
				err = fmt.Errorf("%q is not a flag: to find certificates by a name, --name %[1]s", args[0])
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg.Connect = connection.inventory(streams.ErrOut)
			return certificates.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	duration.Var(flags, &cfg.Expiring, "expiring", 0, "Only certificates that end within this time, such as 7d or 12h.")
	flags.StringVar(&cfg.Name, "name", "", "Only certificates with this DNS name, IP address, URI, e-mail address or common name. '*.corp.example' finds certificates with exactly this wildcard.")
	flags.StringVar(&cfg.Under, "under", "", "Only certificates with this DNS name or one below it, such as corp.example.")
	flags.StringVar(&cfg.Serial, "serial", "", "Only the certificate with this serial number, hexadecimal, with or without colons.")
	flags.StringVar(&cfg.Fingerprint, "fingerprint", "", "Only the certificate with this SHA-256 fingerprint, with or without colons.")
	flags.StringVar(&cfg.Signer, "signer", "", "Only certificates of this signer, such as example.com/hosts or issuers.cert-manager.io/shop.ca.")
	flags.StringVar(&cfg.Requester, "requester", "", "Only certificates that this user has requested.")
	flags.StringVar(&cfg.Approver, "approver", "", "Only certificates that this user has approved.")
	flags.StringVar(&given.since, "since", "", "Only certificates issued since then: a time ago such as 30d, or a time such as 2026-11-01.")
	flags.StringVar(&given.until, "until", "", "Only certificates issued before then: a time ago such as 30d, or a time such as 2026-12-01.")
	flags.StringVar(&cfg.KeyType, "key-type", "", "Only certificates with keys of this type, such as RSA, RSA-2048, ECDSA-P256 or Ed25519.")
	flags.StringVar(&cfg.WeakerThan, "weaker-than", "", "Only certificates with keys that are smaller than this one of the same algorithm, such as RSA-3072.")
	flags.StringVar(&cfg.SignatureAlgorithm, "signature-algorithm", "", "Only certificates signed with this algorithm, such as SHA256-RSA, ECDSA-SHA256 or SHA1.")
	duration.Var(flags, &cfg.LongerThan, "longer-than", 0, "Only certificates that are valid for longer than this, such as 90d.")
	flags.StringVarP(&cfg.Namespace, "namespace", "n", "", "Only certificates for requests in this namespace.")
	flags.StringVarP(&given.selector, "selector", "l", "", "Only certificates whose labels match: those of their requests, and inventory.certplane.dev/kind, namespace, signer and not-after.")
	flags.BoolVar(&cfg.Revoked, "revoked", false, "Only certificates whose revocation the ACME server has recorded; with --ended, also those that have ended.")
	flags.BoolVar(&cfg.Ended, "ended", false, "Also certificates that have ended.")
	flags.BoolVar(&given.own, "own", false, "Also certificates that the server has issued for itself.")
	flags.IntVar(&cfg.Limit, "limit", cfg.Limit, "How many certificates are shown at most; with -o csv, all if not given.")
	addOutputOf(cmd, &cfg.Output, recordFormats, "One of "+strings.Join(recordFormats, ", ")+". A table if not given.")
	for flag, values := range map[string][]string{
		"key-type": inventory.KeyTypes, "weaker-than": {"RSA-3072", "RSA-4096", "ECDSA-P384", "ECDSA-P521"},
		"signature-algorithm": {"SHA1", "SHA256-RSA", "SHA384-RSA", "SHA512-RSA", "ECDSA-SHA256", "ECDSA-SHA384", "ECDSA-SHA512", "Ed25519"},
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	connection.addTo(flags)
	return cmd
}

// defaultLimit is how many certificates are shown if --limit does not say it.
const defaultLimit = 200

// recordFormats are the output formats of verbs that show records.
var recordFormats = append(slices.Clone(listFormats), print.CSV)

// recordLimit returns how many records are shown at most, and refuses a limit and a format
// that there are not. given is true if --limit is given: without it, CSV has all.
func recordLimit(limit int, given bool, format string) (int, error) {
	var errs []error
	if limit <= 0 {
		errs = append(errs, fmt.Errorf("--limit is %d, want a positive number", limit))
	}
	if format != "" && !slices.Contains(recordFormats, format) {
		errs = append(errs, fmt.Errorf("--output is %q, want wide, json, yaml or csv", format))
	}
	if format == print.CSV && !given {
		limit = math.MaxInt
	}
	return limit, errors.Join(errs...)
}

// inventory returns what connects to the inventory. out is where it warns.
func (c *connection) inventory(out io.Writer) func() (client.Client, error) {
	return func() (client.Client, error) {
		config, err := c.clientConfig(out)
		if err != nil {
			return nil, err
		}
		return certificates.Connect(config)
	}
}

// certificateFlags are flags whose values are texts.
type certificateFlags struct {
	selector, since, until string
	own                    bool
}

// complete checks flags, and reads those that are texts. limited is true if a limit is given.
func (f certificateFlags) complete(cfg *certificates.Config, limited bool) error {
	var errs []error
	for name, length := range map[string]time.Duration{"expiring": cfg.Expiring, "longer-than": cfg.LongerThan} {
		if length < 0 {
			errs = append(errs, fmt.Errorf("--%s is %s, want a time such as 7d", name, duration.Format(length)))
		}
	}
	var err error
	if cfg.Selector, err = labels.Parse(f.selector); err != nil {
		errs = append(errs, fmt.Errorf("--selector: %w", err))
	}
	if cfg.Since, cfg.Until, err = parseSpan(f.since, f.until, cfg.Now); err != nil {
		errs = append(errs, err)
	}
	if cfg.Limit, err = recordLimit(cfg.Limit, limited, cfg.Output); err != nil {
		errs = append(errs, err)
	}
	cfg.Ended = cfg.Ended || f.since != "" || f.until != ""
	cfg.WithoutOwn = !f.own && !cfg.Revoked && !cfg.Searches()
	return errors.Join(errs...)
}

// parseSpan reads the flags --since and --until; each is zero if it is empty.
func parseSpan(since, until string, now time.Time) (from, to time.Time, err error) {
	if from, err = parseAgo(since, now); err != nil {
		return from, to, fmt.Errorf("--since: %w", err)
	}
	if to, err = parseAgo(until, now); err != nil {
		return from, to, fmt.Errorf("--until: %w", err)
	}
	if since != "" && until != "" && !from.Before(to) {
		return from, to, fmt.Errorf("--since %s is not before --until %s", since, until)
	}
	return from, to, nil
}

// parseAgo reads a time: how long ago it is, such as 30d, or one of the inventory's. It is
// zero if text is empty.
func parseAgo(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := duration.Parse(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if at, err := inventory.ParseTime(text); err == nil && strings.Contains(text, "-") {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time, such as 30d (ago), 2026-11-30 (UTC) or 2026-11-30T08:00:00Z", text)
}
