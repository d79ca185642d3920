package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/resume"
)

const resumeLong = `A server that was restored from a backup does not know what was revoked since. So it
signs no revocation lists until you say so. Until their end, programs go on with the
lists that they have.

--from reads lists that were published before: crl.pem of any program that checks lists,
what "certplane crl" has written, or a list at a URL, such as that of a proxy that still
has it. All that they name is revoked again. Certificates
that were revoked after the last of these lists must be revoked by hand.

It requires create on revocations.certplane.dev, the rights to revoke the certificates,
and get and delete on the ConfigMap certplane-restored in kube-system.

Exit codes: 0 lists are signed again, 1 error, 2 wrong usage.`

// NewRevocation returns the verb for revocation lists of a restored server.
func NewRevocation(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "revocation", Short: "Sign revocation lists again after a restore"}
	cmd.AddCommand(newResume(streams))
	return cmd
}

func newResume(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var nothing bool
	cfg := resume.Config{Stdout: streams.Out}
	cmd := &cobra.Command{
		Use:     "resume (--from FILE|URL | --nothing)",
		Short:   "Say what was revoked since the backup",
		Long:    resumeLong,
		Example: "  certplane revocation resume --from /etc/nginx/crl.pem\n  certplane revocation resume --nothing",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			switch {
			case len(args) > 0:
				err = errors.New("it takes no arguments: name files and URLs with --from")
			case nothing == (len(cfg.From) > 0):
				err = errors.New("give --from FILE or URL, or --nothing if nothing was revoked since the backup")
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if cfg.Client, err = connection.inventory(streams.ErrOut)(); err != nil {
				return err
			}
			cfg.Now = time.Now()
			return resume.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&cfg.From, "from", nil, "File or URL with published lists, PEM or DER. Can be given several times.")
	flags.BoolVar(&nothing, "nothing", false, "Nothing was revoked since the backup.")
	connection.addTo(flags)
	return cmd
}
