package cli

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/spf13/cobra"
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

It requires create on revocations.certplane.dev, revoke on the signers, for more than 25
certificates and for --all-of-ca also revokemany, and except with --file list on
issuedcertificates.inventory.certplane.dev. 'certplane grant revoke' grants all of this.
Requesters may revoke their own certificates, and owners of a namespace those of its requests.

Exit codes: 0 revoked, 1 refused or failed, 2 wrong usage, 3 revoked, but not yet in all
revocation lists.`

const revokeExample = `  certplane revoke web.example.com --reason KeyCompromise --message 'INC-4711, laptop stolen'
  certplane revoke --requester alice --reason AffiliationChanged --dry-run
  certplane revoke --key leaked.key --reason KeyCompromise
  certplane revoke --file tls.crt --reason Superseded
  certplane revoke --host edge-1 --reason KeyCompromise`

// revokeFlags are the flags of the revoke verb whose values are parsed later.
type revokeFlags struct {
	file, keyFile, request, certificate, selector, issuedBefore, ca, reason string
	connection                                                              connection
}

// NewRevoke returns the revoke verb.
func NewRevoke(streams genericiooptions.IOStreams) *cobra.Command {
	var given revokeFlags
	cfg := revoke.Config{Config: certificates.Config{Stdout: streams.Out, Stderr: streams.ErrOut}, Terminal: terminalOf(streams.In), Command: given.connection.line}
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
			cfg.Now = time.Now()
			if err := given.complete(&cfg, args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			config, err := given.connection.clientConfig(streams.ErrOut)
			if err != nil {
				return err
			}
			config.QPS = -1 // one command sends few requests
			if cfg.Signer, err = given.connection.signerName(cmd.Context(), cfg.Signer); err != nil {
				return err
			}
			_ = rest.LoadTLSFiles(config) // connecting reports the error
			cfg.Own, _ = pki.ParseFirst(config.CertData)
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
	flags.StringVar(&cfg.Serial, "serial", "", "Serial number of the certificate, hexadecimal, with or without colons.")
	flags.StringVar(&cfg.Fingerprint, "fingerprint", "", "SHA-256 fingerprint of the certificate, with or without colons.")
	flags.StringVar(&f.file, "file", "", "File with the certificate, PEM or DER; of several, the first. It need not be recorded.")
	flags.StringVar(&f.request, "request", "", "Request whose certificate is meant: csr/NAME, certificaterequest/NAME or podcertificaterequest/NAME, in --namespace.")
	flags.StringVar(&f.certificate, "certificate", "", "NAMESPACE/NAME of the Certificate of cert-manager.io whose certificates are meant.")
	flags.StringVar(&f.keyFile, "key", "", "File with a key whose certificates are selected, PEM: private or public key, request or certificate. Only a digest of the public key is sent.")
	flags.StringVar(&cfg.Requester, "requester", "", "Select certificates that this user has requested.")
	flags.StringVar(&cfg.Host, "host", "", "Select certificates of this node and of its pods.")
	flags.StringVar(&cfg.Signer, "signer", "", "Select certificates of this signer, such as example.com/hosts or issuers.cert-manager.io/shop.ca.")
	flags.StringVarP(&cfg.Namespace, "namespace", "n", "", "Select certificates for requests in this namespace. With --request, its namespace.")
	flags.StringVarP(&f.selector, "selector", "l", "", "Select certificates whose requests have these labels, such as app=web.")
	flags.StringVar(&f.issuedBefore, "issued-before", "", "Select certificates issued before then: an age such as 30d, or a time such as 2026-11-01. Default: now.")
	flags.StringVar(&f.ca, "all-of-ca", "", "Select all certificates of the CA with this subject key identifier, hexadecimal, with or without colons.")
	flags.StringVar(&f.reason, "reason", "", "Why: one of "+strings.Join(reasonNames(), ", ")+". 'help' explains each.")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(reasonNames(), cobra.ShellCompDirectiveNoFileComp)))
	flags.StringVar(&cfg.Message, "message", "", "Text for people, in the Revocation and in the audit log.")
	flags.BoolVar(&cfg.All, "all", false, "Revoke all certificates that NAME names.")
	flags.BoolVar(&cfg.DryRun, "dry-run", false, "Show what would be revoked, and write nothing.")
	flags.IntVar(&cfg.Yes, "yes", 0, "Confirm without a question, with the number of certificates that --dry-run shows.")
	duration.Var(flags, &cfg.Wait, "wait", 10*time.Second, "Maximum time to wait until the certificates are in the revocation lists; 0 does not wait.")
	f.connection.addTo(flags)
}

// complete validates flags and parses those given as text.
func (f *revokeFlags) complete(cfg *revoke.Config, args []string) error {
	var errs []error
	keep := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	if len(args) > 1 {
		errs = append(errs, fmt.Errorf("%d names are given: name one certificate, or select certificates with flags", len(args)))
	} else if len(args) == 1 {
		cfg.Name = args[0]
	}
	var err error
	cfg.Reason, err = parseReason(f.reason)
	keep("--reason", err)
	cfg.File, err = inFile(f.file, "certificate", firstCertificate)
	keep("--file", err)
	cfg.KeyFingerprint, err = keyFingerprint(f.keyFile)
	keep("--key", err)
	keep("--request", f.parseRequest(cfg))
	keep("--certificate", f.parseCertificate(cfg))
	cfg.Selector, err = labels.Parse(f.selector)
	keep("--selector", err)
	cfg.Until, err = parseAgo(f.issuedBefore, cfg.Now)
	cfg.Until = cfg.Until.Truncate(time.Second)
	keep("--issued-before", err)
	cfg.CA, err = keyIdentifier(f.ca)
	keep("--all-of-ca", err)
	if len(errs) == 0 {
		errs = append(errs, cfg.Check())
	}
	return errors.Join(errs...)
}

var requestKinds = []rights.Kind{rights.SigningRequests, rights.IssuerRequests, rights.PodRequests}

// parseRequest parses --request.
func (f *revokeFlags) parseRequest(cfg *revoke.Config) error {
	if f.request == "" {
		return nil
	}
	called, name, _ := strings.Cut(f.request, "/")
	resource, group, _ := strings.Cut(called, ".")
	i := slices.IndexFunc(requestKinds, func(k rights.Kind) bool { return k.Is(resource) && (group == "" || group == k.Group) })
	if i < 0 || name == "" {
		return fmt.Errorf("%q is not csr/NAME, certificaterequest/NAME or podcertificaterequest/NAME", f.request)
	}
	cfg.RequestKind, cfg.RequestName = &requestKinds[i], name
	switch {
	case requestKinds[i].Namespaced:
		cfg.Namespace = f.connection.in(cfg.Namespace)
	case cfg.Namespace != "":
		return fmt.Errorf("%ss have no namespace: omit --namespace", requestKinds[i].Name)
	}
	return nil
}

// parseCertificate parses --certificate.
func (f *revokeFlags) parseCertificate(cfg *revoke.Config) error {
	namespace, name, _ := strings.Cut(f.certificate, "/")
	switch {
	case f.certificate == "":
		return nil
	case namespace == "" || name == "":
		return fmt.Errorf("%q is not NAMESPACE/NAME of a %s", f.certificate, cmv1.CertificateKind)
	case cfg.Namespace != "" && cfg.Namespace != namespace:
		return fmt.Errorf("%s is not in the namespace %s: omit --namespace", f.certificate, cfg.Namespace)
	}
	cfg.Namespace, cfg.Certificate = namespace, name
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

// firstCertificate returns the first certificate in PEM or DER.
func firstCertificate(data []byte) (*x509.Certificate, error) {
	if certs, err := x509.ParseCertificates(data); err == nil && len(certs) > 0 {
		return certs[0], nil
	}
	return pki.ParseFirst(data)
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
	problem := "it has no default"
	if text != "" {
		problem = fmt.Sprintf("%q is not a reason, and a revocation is final", text)
	}
	return "", fmt.Errorf("%s: give one of %s; '--reason help' explains each", problem, strings.Join(names, ", "))
}
