package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/revoke"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
	"github.com/certplane/certplane/internal/rights"
)

const revokeLong = `Revokes certificates: the server refuses them from now on, and adds them to the
revocation lists of their CAs. This is final. It creates one Revocation, which says who
revoked them, when and why.

NAME is a name in the certificate, a serial number or the name of a record, as in
'certplane certificates'. --serial, --fingerprint, --file, --request and --certificate
name a certificate, too. All other flags select certificates, which must match all of
them; certificates that the server has issued for itself are left out. A selection asks
first: without a terminal, --yes confirms it with the number that --dry-run shows. What
is issued after the count is not revoked.

It requires create on revocations.certplane.dev, and for each certificate the verb
revoke on its signer, or on the kind of its request in the namespace of the request, or
to have requested it oneself. More than 25 at once, and --all-of-ca, also require
revokemany on the signers. It finds certificates in the inventory, which requires list on
issuedcertificates.inventory.certplane.dev, except with --file. 'certplane grant revoke'
grants all of this.

Exit codes: 0 revoked, 1 refused or failed, 2 wrong usage, 3 revoked, but not yet in all
revocation lists.`

const revokeExample = `  certplane revoke web.example.com --reason KeyCompromise --message 'INC-4711, laptop stolen'
  certplane revoke --requester alice --reason AffiliationChanged --dry-run
  certplane revoke --key leaked.key --reason KeyCompromise
  certplane revoke --file tls.crt --reason Superseded
  certplane revoke --host edge-1 --reason KeyCompromise`

// revokeFlags are the flags of the revoke verb whose values are parsed later.
type revokeFlags struct {
	which                                                           revoke.Which
	file, keyFile, request, certificate, selector, issuedBefore, ca string
	reason                                                          string
	connection                                                      connection
}

// NewRevoke returns the revoke verb.
func NewRevoke(streams genericiooptions.IOStreams) *cobra.Command {
	var given revokeFlags
	cfg := revoke.Config{Now: time.Now, Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:               "revoke (NAME | FLAGS) --reason REASON",
		Short:             "Revoke certificates permanently",
		Long:              revokeLong,
		Example:           revokeExample,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if given.reason == "help" {
				fmt.Fprint(streams.Out, reasonsText())
				return nil
			}
			err := given.complete(&cfg, args)
			if err == nil && cmd.Flags().Changed("yes") && cfg.Yes <= 0 {
				err = fmt.Errorf("--yes is %d, want the number of certificates, as --dry-run shows it", cfg.Yes)
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			config, err := given.connection.clientConfig(streams.ErrOut)
			if err != nil {
				return err
			}
			config.QPS = -1 // one command sends few requests
			if cfg.Which.Signer, err = given.connection.signerName(cmd.Context(), cfg.Which.Signer); err != nil {
				return err
			}
			cfg.Own, cfg.Terminal = certificateOf(config), terminalOf(streams.In)
			cfg.Connect = func() (client.Client, error) { return certificates.Connect(config) }
			return revoke.Run(cmd.Context(), cfg)
		},
	}
	given.addTo(cmd, &cfg)
	return cmd
}

func (f *revokeFlags) addTo(cmd *cobra.Command, cfg *revoke.Config) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.addNames(flags)
	f.addSelection(flags)
	flags.StringVar(&f.reason, "reason", "", "Why: one of "+strings.Join(reasonNames(), ", ")+". 'help' explains each.")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(reasonNames(), cobra.ShellCompDirectiveNoFileComp)))
	flags.StringVar(&cfg.Message, "message", "", "Text for people, in the Revocation and in the audit log.")
	flags.BoolVar(&cfg.All, "all", false, "Revoke all certificates that NAME names.")
	flags.BoolVar(&cfg.DryRun, "dry-run", false, "Show what would be revoked, and write nothing.")
	flags.IntVar(&cfg.Yes, "yes", 0, "Confirm without a question, with the number of certificates that --dry-run shows.")
	duration.Var(flags, &cfg.Wait, "wait", 10*time.Second, "Maximum time to wait until the certificates are in the revocation lists; 0 does not wait.")
	f.connection.addTo(flags)
}

func (f *revokeFlags) addNames(flags *pflag.FlagSet) {
	flags.StringVar(&f.which.Serial, "serial", "", "Serial number of the certificate, hexadecimal, with or without colons.")
	flags.StringVar(&f.which.Fingerprint, "fingerprint", "", "SHA-256 fingerprint of the certificate, with or without colons.")
	flags.StringVar(&f.file, "file", "", "File with the certificate, PEM or DER; of several, the first. It need not be recorded.")
	flags.StringVar(&f.request, "request", "", "Request whose certificate is meant: csr/NAME, certificaterequest/NAME or podcertificaterequest/NAME, in --namespace.")
	flags.StringVar(&f.certificate, "certificate", "", "NAMESPACE/NAME of the Certificate of cert-manager.io whose certificates are meant.")
}

func (f *revokeFlags) addSelection(flags *pflag.FlagSet) {
	flags.StringVar(&f.keyFile, "key", "", "File with a key whose certificates are selected, PEM: private or public key, request or certificate. Only a digest of the public key is sent.")
	flags.StringVar(&f.which.Requester, "requester", "", "Select certificates that this user has requested.")
	flags.StringVar(&f.which.Host, "host", "", "Select certificates of this node and of its pods.")
	flags.StringVar(&f.which.Signer, "signer", "", "Select certificates of this signer, such as example.com/hosts or issuers.cert-manager.io/shop.ca.")
	flags.StringVarP(&f.which.Namespace, "namespace", "n", "", "Select certificates for requests in this namespace. With --request, its namespace.")
	flags.StringVarP(&f.selector, "selector", "l", "", "Select certificates whose requests have these labels, such as app=web.")
	flags.StringVar(&f.issuedBefore, "issued-before", "", "Select certificates issued before then: an age such as 30d, or a time such as 2026-11-01. Default: now.")
	flags.StringVar(&f.ca, "all-of-ca", "", "Select all certificates of the CA with this subject key identifier, hexadecimal, with or without colons.")
}

// complete validates flags and parses those given as text.
func (f *revokeFlags) complete(cfg *revoke.Config, args []string) error {
	w := f.which
	var errs []error
	keep := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	if len(args) > 1 {
		errs = append(errs, fmt.Errorf("%d names are given: name one certificate, or select certificates with flags", len(args)))
	} else if len(args) == 1 {
		w.Name = args[0]
	}
	var err error
	cfg.Reason, err = parseReason(f.reason)
	keep("--reason", err)
	w.File, err = certificateIn(f.file)
	keep("--file", err)
	w.KeyFingerprint, err = keyFingerprint(f.keyFile)
	keep("--key", err)
	keep("--request", f.parseRequest(&w))
	keep("--certificate", f.parseCertificate(&w))
	w.Labels, err = labels.Parse(f.selector)
	keep("--selector", err)
	w.IssuedBefore, err = parseAgo(f.issuedBefore, cfg.Now())
	w.IssuedBefore = w.IssuedBefore.Truncate(time.Second)
	keep("--issued-before", err)
	w.CA, err = keyIdentifier(f.ca)
	keep("--all-of-ca", err)
	if cfg.Wait < 0 {
		errs = append(errs, fmt.Errorf("--wait is %s, want a time such as 10s", duration.Format(cfg.Wait)))
	}
	if len(errs) == 0 {
		errs = append(errs, w.Check())
	}
	cfg.Which = w
	cfg.Command = func(words ...string) string { return print.CommandLine(f.connection.command(words...)...) }
	return errors.Join(errs...)
}

var requestKinds = []rights.Kind{rights.SigningRequests, rights.IssuerRequests, rights.PodRequests}

// parseRequest parses --request.
func (f *revokeFlags) parseRequest(w *revoke.Which) error {
	if f.request == "" {
		return nil
	}
	called, name, _ := strings.Cut(f.request, "/")
	resource, group, _ := strings.Cut(called, ".")
	i := slices.IndexFunc(requestKinds, func(k rights.Kind) bool { return k.Is(resource) && (group == "" || group == k.Group) })
	if i < 0 || name == "" {
		return fmt.Errorf("%q is not csr/NAME, certificaterequest/NAME or podcertificaterequest/NAME", f.request)
	}
	w.RequestKind, w.RequestName = &requestKinds[i], name
	switch {
	case requestKinds[i].Namespaced:
		w.Namespace = f.connection.in(f.which.Namespace)
	case w.Namespace != "":
		return fmt.Errorf("%ss have no namespace: omit --namespace", requestKinds[i].Name)
	}
	return nil
}

// parseCertificate parses --certificate.
func (f *revokeFlags) parseCertificate(w *revoke.Which) error {
	if f.certificate == "" {
		return nil
	}
	namespace, name, found := strings.Cut(f.certificate, "/")
	if !found {
		namespace, name = f.connection.in(f.which.Namespace), f.certificate
	} else if f.which.Namespace != "" && f.which.Namespace != namespace {
		return fmt.Errorf("%s is not in the namespace %s: omit --namespace", f.certificate, f.which.Namespace)
	}
	if namespace == "" || name == "" {
		return fmt.Errorf("%q is not NAMESPACE/NAME of a %s", f.certificate, cmv1.CertificateKind)
	}
	w.Namespace, w.Certificate = namespace, name
	return nil
}

// keyIdentifier returns a key identifier in lower case, without colons.
func keyIdentifier(text string) (string, error) {
	digits := strings.ToLower(strings.ReplaceAll(text, ":", ""))
	if id, err := hex.DecodeString(digits); err != nil || len(id) > 32 {
		return "", fmt.Errorf("%q is not a key identifier: want hexadecimal digits, as 'openssl x509 -noout -ext subjectKeyIdentifier -in ca.crt' prints", text)
	}
	return digits, nil
}

// certificateIn returns the first certificate of a file, PEM or DER; nil if file is empty.
func certificateIn(file string) (*x509.Certificate, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	if bytes.HasPrefix(data, []byte{0x30}) { // DER
		certs, err := x509.ParseCertificates(data)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate in %s: %w", file, err)
		}
		return certs[0], nil
	}
	cert, err := pki.ParseFirst(data)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate in %s: %w", file, err)
	}
	return cert, nil
}

// certificateOf returns the client certificate of a kubeconfig; nil if it has none.
func certificateOf(config *rest.Config) *x509.Certificate {
	data := config.CertData
	if len(data) == 0 && config.CertFile != "" {
		data, _ = os.ReadFile(config.CertFile) // connecting reports the error
	}
	cert, err := pki.ParseFirst(data)
	if err != nil {
		return nil
	}
	return cert
}

func reasonNames() []string {
	var names []string
	for _, r := range pki.Reasons() {
		names = append(names, r.String())
	}
	return names
}

// reasonsText explains all reasons.
func reasonsText() string {
	rows := [][]string{{"REASON", "WHEN"}}
	for _, r := range pki.Reasons() {
		rows = append(rows, []string{r.String(), revoke.Meaning(r)})
	}
	return print.Columns(rows) + "A revocation is final: there is no certificateHold.\n"
}

// parseReason returns the name of a reason, which can be given in any case.
func parseReason(text string) (string, error) {
	names := reasonNames()
	if i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, text) }); i >= 0 {
		return names[i], nil
	}
	hint := "give one of " + strings.Join(names, ", ") + "; '--reason help' explains each"
	switch {
	case text == "":
		return "", errors.New("it has no default: " + hint)
	case strings.EqualFold(text, "certificateHold"):
		return "", fmt.Errorf("%q: a revocation is final: %s", text, hint)
	}
	return "", fmt.Errorf("%q is not a reason: %s", text, hint)
}
