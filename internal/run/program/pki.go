package program

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/store/backup"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// newPKI returns the pki verb with its subcommands.
func newPKI(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "Copy a server's CAs and keys to another server of the same store",
		Long: `Servers that share an etcd need the same CAs and keys. Export them on one server
to an encrypted file, and import the file on the others, before their first start
and after each 'certplane encryption rotate --one-step'.

The key of the client root CA is not exported, and each server creates its own
certificate. When one server renews the client CA, the others get it automatically.`,
	}
	cmd.AddCommand(newPKIExport(streams), newPKIImport(streams))
	return cmd
}

func newPKIExport(streams genericiooptions.IOStreams) *cobra.Command {
	var dataDir string
	var sealing sealFlags
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write the CAs and keys for other servers of the store to an encrypted file",
		Long: `Writes the CAs and keys for other servers of the same store to a new file with mode
0600. The server may be running.

The file is encrypted: with a passphrase, from --passphrase-file, from
$` + passphraseEnv + ` or a prompt, or to the public key of a key pair made with
'certplane backup keygen'. Anyone who can decrypt it has your CAs: delete it after
the import.`,
		Example: "  certplane pki export --data-dir ./data keys",
		RunE: withArgument("the file to write", func(cmd *cobra.Command, file string) error {
			dir, err := cli.DataDir(dataDir)
			if err != nil {
				return err
			}
			protection, err := sealing.protection(streams, "--recipient")
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			keys, err := backup.ExportKeys(file, dir, protection, time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(streams.Out, "Exported to %s:\n", file)
			if err := printKeys(streams.Out, keys); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "Bring the file to the other server, import it there, and delete it:\n  certplane pki import --data-dir FOLDER %s\n", file)
			return err
		}),
	}
	cli.AddDataDirFlag(cmd.Flags(), &dataDir)
	sealing.addTo(cmd.Flags())
	return cmd
}

func newPKIImport(streams genericiooptions.IOStreams) *cobra.Command {
	var dataDir string
	var opening restoreFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Write exported CAs and keys to a server's data folder",
		Long: `Writes the CAs and keys in a file of 'certplane pki export', or in a backup, to a
server's data folder, and creates the folder if needed. It does not replace keys of
another server. A running server loads new encryption keys and CA certificates
automatically.`,
		Example: "  certplane pki import --data-dir ./data keys && certplane serve --data-dir ./data --etcd-servers https://etcd-0:2379",
		RunE: withArgument("the file to import", func(cmd *cobra.Command, file string) error {
			dir, err := cli.DataDir(dataDir)
			if err != nil {
				return err
			}
			opened, err := opening.open(cmd, streams, file)
			if err != nil {
				return err
			}
			imported, err := backup.ImportKeys(file, dir, opened.Protection)
			if err != nil {
				return err
			}
			if len(imported.Changed) == 0 {
				fmt.Fprintf(streams.Out, "%s has these keys already:\n", dir.PKI())
			} else {
				fmt.Fprintf(streams.Out, "Wrote %s into %s:\n", strings.Join(imported.Changed, ", "), dir.PKI())
			}
			return printKeys(streams.Out, imported.Keys)
		}),
	}
	cli.AddDataDirFlag(cmd.Flags(), &dataDir)
	addPassphraseFlag(cmd.Flags(), &opening.passphraseFile)
	addIdentityFlag(cmd.Flags(), &opening.identityFile)
	return cmd
}

// printKeys prints the fingerprints of keys.
func printKeys(out io.Writer, keys storerecord.Keys) error {
	table := newTable(out)
	writeKeys(table, keys)
	return table.Flush()
}

// writeKeys writes a row for each key.
func writeKeys(table io.Writer, keys storerecord.Keys) {
	for _, part := range []struct {
		name         string
		fingerprints []string
	}{
		{"client CA", keys.ClientCA}, {"serving CA", keys.ServingCA},
		{"service account key", keys.ServiceAccount}, {"encryption key", keys.Encryption},
	} {
		for _, fingerprint := range part.fingerprints {
			fmt.Fprintf(table, "  %s\t%s\n", part.name, fingerprint)
		}
	}
}

// newTable returns a writer of rows whose cells are separated by tabs.
func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }
