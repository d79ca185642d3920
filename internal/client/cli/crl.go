package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/client/cli/crl"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

const crlLong = `Writes the certificate revocation lists that programs such as nginx, PostgreSQL and
curl need to refuse the revoked certificates of a signer, in PEM: those of all CAs of the
signer, and then of the CAs above them. A list names all revoked certificates of a CA that
have not ended.

Programs that check lists refuse all certificates of a CA whose list is missing or has
ended: write the file again long before that. 'certplane kubectl get revocationlists'
shows when.

It requires list on revocationlists.inventory.certplane.dev and get on their subresource
content, which all authenticated users may. Only "certplane serve" has them.

Exit codes: 0 written, 1 error, 2 wrong usage.`

const crlExample = `  certplane crl server > crl.pem
  certplane crl server | openssl crl -outform DER > crl.der`

// NewCRL returns the verb that writes the revocation lists of a signer.
func NewCRL(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	cfg := crl.Config{Stdout: streams.Out, Stderr: streams.ErrOut}
	cfg.Connect = func() (*rest.Config, error) { return connection.clientConfig(streams.ErrOut) }
	cfg.Kubectl = func(words ...string) string { return connection.line(append([]string{"kubectl"}, words...)...) }
	cmd := &cobra.Command{
		Use:     "crl SIGNER",
		Short:   "Write the revocation lists of a signer, and of the CAs above it",
		Long:    crlLong,
		Example: crlExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return exit.UsageError(cmd.CommandPath(), errors.New("name one signer, as in 'certplane crl server'"))
			}
			var err error
			if cfg.Signer, err = connection.signerName(cmd.Context(), args[0]); err != nil {
				return err
			}
			cfg.Now = time.Now()
			return crl.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	connection.addTo(flags)
	cmd.AddCommand(newCRLSign(streams))
	return cmd
}

const crlSignLong = `Signs the revocation list of a CA whose key the server does not have, such as that of the
root of client certificates after its key was moved away. The command gets the next list from
the server, shows it, signs it on this machine, and sends the signature to the server. The key
does not leave this machine, and is used for lists only. The list is valid until the end of
the CA: sign another one after each revocation of one of its certificates.

It requires get and update on revocationlists.inventory.certplane.dev/signature.

Exit codes: 0 signed, 1 error, 2 wrong usage.`

func newCRLSign(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	cfg := crl.SignConfig{Stdout: streams.Out, Connect: connection.inventory(streams.ErrOut)}
	cmd := &cobra.Command{
		Use:     "sign --ca FILE --key FILE",
		Short:   "Sign a revocation list with a key that the server does not have",
		Long:    crlSignLong,
		Example: "  certplane crl sign --ca client-ca-root.crt --key client-ca-root.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cfg.CAFile == "" || cfg.KeyFile == "" || len(args) > 0 {
				return exit.UsageError(cmd.CommandPath(), errors.New("give --ca and --key, and nothing else"))
			}
			return crl.Sign(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&cfg.CAFile, "ca", "", "File with the certificate of the CA, in PEM.")
	flags.StringVar(&cfg.KeyFile, "key", "", "File with the private key of the CA, in PEM.")
	connection.addTo(flags)
	return cmd
}
