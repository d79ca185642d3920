package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
	"github.com/certplane/certplane/internal/rights"
)

const certificatesLong = `Shows the certificates that a server has issued and that have not expired, earliest
expiry first: from all signers and issuers, for requests of all kinds.

Flags select certificates; a certificate must match all of them. Certificates that the
server has issued for itself are shown only with --own, or if flags give names, numbers,
keys, signers or requesters. --since and --until also show expired certificates, as far as the
server keeps their records (inventory.keep). 'certplane kubectl get issuedcertificates'
shows the same records, with selectors, and follows them (-w).

It requires list on issuedcertificates.inventory.certplane.dev, as in the ClusterRole
certplane-inventory-view. In a cluster it reads the CertificatePacks of the controller record,
which requires list and get on certificatepacks.records.certplane.dev, as in the same role.

Exit codes: 0 shown, even if none matches, 1 error, 2 wrong usage.`

// NewCertificates returns the certificates verb.
func NewCertificates(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var given certificateFlags
	cfg := certificates.Config{Limit: defaultLimit, Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:   "certificates",
		Short: "List issued certificates: expiry, requester and approver",
		Long:  certificatesLong,
		Example: "  certplane certificates --expiring 7d\n  certplane certificates --name web.example.com -o wide\n" +
			"  certplane certificates --serial 1e:2a:77 --ended -o yaml\n" +
			"  certplane certificates --under corp.example --approver bob --since 30d -o csv > certificates.csv\n" +
			"  certplane certificates --weaker-than RSA-3072 --longer-than 90d\n  certplane certificates --revoked --since 30d\n  certplane certificates --key stolen.key --ended",
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
	duration.Var(flags, &cfg.Expiring, "expiring", 0, "Show only certificates that expire within this time, such as 7d or 12h.")
	flags.StringVar(&cfg.Name, "name", "", "Show only certificates with this DNS name, IP address, URI, e-mail address or common name. '*.corp.example' finds certificates with exactly this wildcard.")
	flags.StringVar(&cfg.Under, "under", "", "Show only certificates with this DNS name or one below it, such as corp.example.")
	flags.StringVar(&cfg.Serial, "serial", "", "Show only the certificate with this serial number, hexadecimal, with or without colons.")
	flags.StringVar(&cfg.Fingerprint, "fingerprint", "", "Show only the certificate with this SHA-256 fingerprint, with or without colons.")
	flags.StringVar(&given.keyFile, "key", "", "Show only certificates with the key in this PEM file: a private key, public key, certificate request or certificate. Only the SHA-256 of the public key is sent. Records of earlier versions are not found.")
	flags.StringVar(&cfg.Signer, "signer", "", "Show only certificates of this signer, such as example.com/hosts or issuers.cert-manager.io/shop.ca.")
	flags.StringVar(&cfg.Requester, "requester", "", "Show only certificates that this user has requested.")
	flags.StringVar(&cfg.Approver, "approver", "", "Show only certificates that this user has approved.")
	flags.StringVar(&given.since, "since", "", "Show only certificates issued since then: an age such as 30d, or a time such as 2026-11-01.")
	flags.StringVar(&given.until, "until", "", "Show only certificates issued before then: an age such as 30d, or a time such as 2026-12-01.")
	flags.StringVar(&cfg.KeyType, "key-type", "", "Show only certificates with keys of this type, such as RSA, RSA-2048, ECDSA-P256 or Ed25519.")
	flags.StringVar(&cfg.WeakerThan, "weaker-than", "", "Show only certificates with keys smaller than this one of the same algorithm, such as RSA-3072.")
	flags.StringVar(&cfg.SignatureAlgorithm, "signature-algorithm", "", "Show only certificates signed with this algorithm, such as SHA256-RSA, ECDSA-SHA256 or SHA1.")
	duration.Var(flags, &cfg.LongerThan, "longer-than", 0, "Show only certificates valid for longer than this, such as 90d.")
	flags.StringVarP(&cfg.Namespace, "namespace", "n", "", "Show only certificates for requests in this namespace.")
	flags.StringVarP(&given.selector, "selector", "l", "", "Show only certificates whose labels match: the labels of their requests, and inventory.certplane.dev/kind, namespace, signer and not-after.")
	flags.BoolVar(&cfg.Revoked, "revoked", false, "Show only certificates with a recorded revocation; with --ended, also expired ones.")
	flags.BoolVar(&cfg.Ended, "ended", false, "Also show expired certificates.")
	flags.BoolVar(&given.own, "own", false, "Also show certificates that the server has issued for itself.")
	flags.IntVar(&cfg.Limit, "limit", cfg.Limit, "Maximum number of certificates; with -o csv, the default is all.")
	addOutputOf(cmd, &cfg.Output, recordFormats, "One of "+strings.Join(recordFormats, ", ")+". Default: a table.")
	for flag, values := range map[string][]string{
		"key-type": inventory.KeyTypes, "weaker-than": {"RSA-3072", "RSA-4096", "ECDSA-P384", "ECDSA-P521"},
		"signature-algorithm": {"SHA1", "SHA256-RSA", "SHA384-RSA", "SHA512-RSA", "ECDSA-SHA256", "ECDSA-SHA384", "ECDSA-SHA512", "Ed25519"},
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	connection.addControllersTo(flags)
	connection.addTo(flags)
	return cmd
}

// addControllersTo adds the flag with the namespace in which the records of a cluster are.
func (c *connection) addControllersTo(flags *pflag.FlagSet) {
	flags.StringVar(&c.controllers, "controllers-namespace", rights.ClusterNamespace, "Namespace of 'certplane controllers', whose records are read if the server has no inventory.")
}

// defaultLimit is the default of --limit.
const defaultLimit = 200

// recordFormats are the output formats of verbs that show records.
var recordFormats = append(slices.Clone(listFormats), print.CSV)

// recordLimit returns the maximum number of records to show, and an error for an invalid
// limit or format. given is true if --limit is set: without it, CSV contains all records.
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

// inventory returns a function that connects to the inventory. Warnings are written to
// out.
func (c *connection) inventory(out io.Writer) func() (client.Client, error) {
	return func() (client.Client, error) {
		config, err := c.clientConfig(out)
		if err != nil {
			return nil, err
		}
		return certificates.ConnectIn(config, cmp.Or(c.controllers, rights.ClusterNamespace))
	}
}

// certificateFlags holds flags whose values are parsed later.
type certificateFlags struct {
	selector, since, until, keyFile string
	own                             bool
}

// complete validates flags and parses those given as text. limited is true if --limit is
// set.
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
	if cfg.KeyFingerprint, err = keyFingerprint(f.keyFile); err != nil {
		errs = append(errs, fmt.Errorf("--key: %w", err))
	}
	cfg.Ended = cfg.Ended || f.since != "" || f.until != ""
	cfg.WithoutOwn = !f.own && !cfg.Revoked && !cfg.Searches()
	return errors.Join(errs...)
}

// inFile parses a file; found is zero if file is empty.
func inFile[T any](file, noun string, parse func([]byte) (T, error)) (found T, err error) {
	if file == "" {
		return found, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return found, fmt.Errorf("reading the %s: %w", noun, err)
	}
	if found, err = parse(data); err != nil {
		return found, fmt.Errorf("reading the %s in %s: %w", noun, file, err)
	}
	return found, nil
}

// keyFingerprint returns the digest of the public key in a file; empty if file is.
func keyFingerprint(file string) (string, error) {
	key, err := inFile(file, "key", pki.ParsePublicKey)
	if err != nil || key == nil {
		return "", err
	}
	return pki.KeyFingerprint(key), nil
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

// parseAgo parses a time: an age such as 30d, or a time in the inventory's format. It
// returns the zero time if text is empty.
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
