package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/backup"
	"github.com/certplane/certplane/internal/store/datadir"
)

// passphraseEnv can hold the passphrase of backups.
const passphraseEnv = "CERTPLANE_BACKUP_PASSPHRASE"

// newBackup returns the backup verb with its subcommands.
func newBackup(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Save a server's store and keys to one file, and restore them",
		Long: `Saves the store and the keys of a server to one file, creates a data folder from
such a file, and proves that a file can be restored.

The file is encrypted: with a passphrase, from --passphrase-file, from
$` + passphraseEnv + ` or a prompt, or to the public key of a key pair made with
'certplane backup keygen'.`,
	}
	cmd.AddCommand(newBackupSave(streams), newBackupRestore(streams), newBackupVerify(streams), newBackupKeygen(streams))
	return cmd
}

// addStoreFlags adds serve's flags for the place of the data that a backup
// saves.
func addStoreFlags(flags *pflag.FlagSet, cfg *server.Config) {
	cli.AddDataDirFlag(flags, &cfg.DataDir)
	addEtcdFlags(flags, &cfg.Etcd)
}

func newBackupSave(streams genericiooptions.IOStreams) *cobra.Command {
	var configFile string
	var sealing sealFlags
	var withoutKeys bool
	keep, flags := 0, server.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "save FILE|FOLDER",
		Short: "Save a running or a stopped server's store and keys to a file",
		Long: `Saves the store and the keys of a server to a new file with mode 0600. The server
may be running or stopped. In a folder, the file is named after the time; --keep N
then removes older files.

The file is a snapshot of one moment. Run it on the machine with the server's data
folder. If the server uses an external etcd, name it like the server does: with
--config or --etcd-servers.`,
		Example: `  certplane backup save --data-dir ./data monday.backup
  certplane backup save --recipient age1... --keep 30 /var/backups/certplane/`,
		RunE: withArgument("the file or the folder to save into", func(cmd *cobra.Command, target string) error {
			cfg, err := loadStoreConfig(configFile, cmd.Flags(), flags)
			if err != nil {
				return err
			}
			saving := backup.Saving{Source: source(cfg), WithoutKeys: withoutKeys, Now: time.Now()}
			if !withoutKeys || sealing.given() {
				if saving.Protection, err = sealing.protection(streams, "--recipient or --without-keys"); err != nil {
					return exit.UsageError(cmd.CommandPath(), err)
				}
			}
			return saveBackup(cmd, streams, target, keep, saving)
		}),
	}
	cmd.Flags().StringVar(&configFile, "config", "", "Configuration file of the server, if it uses one.")
	addStoreFlags(cmd.Flags(), &flags)
	sealing.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&withoutKeys, "without-keys", withoutKeys, "Omit the folder pki, which is stored elsewhere. The file then needs no encryption.")
	cmd.Flags().IntVar(&keep, "keep", keep, "Number of newest backups to keep in the folder. 0 keeps all.")
	return cmd
}

func saveBackup(cmd *cobra.Command, streams genericiooptions.IOStreams, target string, keep int, saving backup.Saving) error {
	file, dir := target, ""
	if info, err := os.Stat(target); err == nil && info.IsDir() || strings.HasSuffix(target, string(filepath.Separator)) {
		file, dir = backup.FileIn(target, saving.Now), target
		if err := os.MkdirAll(target, 0o700); err != nil {
			return fmt.Errorf("making the folder of backups: %w", err)
		}
	}
	if keep < 0 || keep > 0 && dir == "" {
		return exit.UsageError(cmd.CommandPath(), errors.New("--keep needs a folder and a number that is not negative"))
	}
	summary, err := backup.Save(cmd.Context(), file, saving)
	if err != nil {
		return err
	}
	fmt.Fprintf(streams.Out, "Saved to %s:\n", file)
	if err := printSummary(streams.Out, summary); err != nil || keep == 0 {
		return err
	}
	removed, err := backup.Prune(dir, keep)
	for _, file := range removed {
		fmt.Fprintf(streams.Out, "Removed %s\n", file)
	}
	return err
}

func newBackupRestore(streams genericiooptions.IOStreams) *cobra.Command {
	var dataDir string
	var restoring restoreFlags
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Create a data folder from a backup",
		Long: `Creates a new data folder with the store and the keys of a backup. Start a server on
it with the configuration of the saved server.

Never run a server on the former folder at the same time. Clients that were connected
before the restore list all objects again once.`,
		Example: "  certplane backup restore --data-dir ./restored monday.backup && certplane serve --data-dir ./restored",
		RunE: withArgument("the backup to restore", func(cmd *cobra.Command, file string) error {
			dir, err := cli.DataDir(dataDir)
			if err != nil {
				return err
			}
			opened, err := restoring.open(cmd, streams, file)
			if err != nil {
				return err
			}
			summary, err := backup.Restore(cmd.Context(), file, dir, opened)
			if err != nil {
				return err
			}
			fmt.Fprintf(streams.Out, "Restored %s into %s:\n", file, dir)
			if err := printSummary(streams.Out, summary); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "Start it with the configuration of the saved server:\n  certplane serve --data-dir %s\n", dir)
			return err
		}),
	}
	cli.AddDataDirFlag(cmd.Flags(), &dataDir)
	restoring.addTo(cmd.Flags())
	return cmd
}

func newBackupVerify(streams genericiooptions.IOStreams) *cobra.Command {
	var restoring restoreFlags
	var temp string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Prove that a backup can be restored",
		Long: `Restores a backup to a temporary folder, opens the store, decrypts every Secret,
compares all objects with the saved ones, and removes the folder.`,
		Example: "  certplane backup verify monday.backup",
		RunE: withArgument("the backup to verify", func(cmd *cobra.Command, file string) error {
			opened, err := restoring.open(cmd, streams, file)
			if err != nil {
				return err
			}
			summary, err := backup.Verify(cmd.Context(), file, temp, opened)
			if err != nil {
				return err
			}
			fmt.Fprintf(streams.Out, "%s can be restored:\n", file)
			return printSummary(streams.Out, summary)
		}),
	}
	restoring.addTo(cmd.Flags())
	cmd.Flags().StringVar(&temp, "temp-dir", temp, "Temporary folder to restore to, with room for the store. Default: $TMPDIR.")
	return cmd
}

func newBackupKeygen(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "keygen",
		Short: "Create a key pair to encrypt backups with",
		Long: `Prints a new private key, and its public key in a comment. Use the public key with
'backup save --recipient' and the private key with 'backup restore --identity'. Do
not store the private key on the server. Both are age keys (age-encryption.org).`,
		Example: `  certplane backup keygen > backup.key
  certplane backup save --recipient "$(sed -n 's/^# public key: //p' backup.key)" monday.backup`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			identity, err := age.GenerateX25519Identity()
			if err != nil {
				return fmt.Errorf("making a key: %w", err)
			}
			_, err = fmt.Fprintf(streams.Out, "# public key: %s\n%s\n", identity.Recipient(), identity)
			return err
		},
	}
}

// restoreFlags are the flags for opening a backup.
type restoreFlags struct {
	passphraseFile, identityFile, pki string
}

func (f *restoreFlags) addTo(flags *pflag.FlagSet) {
	addPassphraseFlag(flags, &f.passphraseFile)
	addIdentityFlag(flags, &f.identityFile)
	flags.StringVar(&f.pki, "pki", "", "Folder pki that was stored separately, for a backup without keys.")
}

func (f *restoreFlags) open(cmd *cobra.Command, streams genericiooptions.IOStreams, file string) (backup.Restoring, error) {
	restoring := backup.Restoring{PKI: f.pki, Now: time.Now()}
	kind, err := kindOf(file)
	if err != nil {
		return restoring, err
	}
	switch kind {
	case backup.ByPassphrase:
		restoring.Protection.Passphrase, err = passphrase(streams, f.passphraseFile, "")
	case backup.ByKey:
		restoring.Protection.Identities, err = readIdentities(f.identityFile)
	case backup.Plain:
	}
	if err != nil {
		return restoring, exit.UsageError(cmd.CommandPath(), err)
	}
	return restoring, nil
}

func kindOf(file string) (backup.Kind, error) {
	src, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("opening the backup: %w", err)
	}
	defer src.Close()
	kind, err := backup.KindOf(bufio.NewReader(src))
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", file, err)
	}
	return kind, nil
}

func readIdentities(file string) ([]age.Identity, error) {
	if file == "" {
		return nil, errors.New("the backup is encrypted to a key: name the file with the private key with --identity")
	}
	src, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	defer src.Close()
	identities, err := age.ParseIdentities(src)
	if err != nil {
		return nil, fmt.Errorf("--identity: %s is not a file with private keys of age", file) // the error could quote a key
	}
	return identities, nil
}

func parseRecipients(given []string) ([]age.Recipient, error) {
	var all []age.Recipient
	for _, value := range given {
		text := io.Reader(strings.NewReader(value))
		if !strings.HasPrefix(value, "age1") {
			data, err := os.ReadFile(value)
			if err != nil {
				return nil, fmt.Errorf("--recipient: %q is neither a public key that begins with age1 nor a file of such keys: %w", value, err)
			}
			text = strings.NewReader(string(data))
		}
		recipients, err := age.ParseRecipients(text)
		if err != nil {
			return nil, fmt.Errorf("--recipient: %w", err)
		}
		all = append(all, recipients...)
	}
	return all, nil
}

func addPassphraseFlag(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "passphrase-file", "", "File whose first line is the passphrase. Default: $"+passphraseEnv+", otherwise a prompt.")
}

// sealFlags are the flags for encrypting a new file.
type sealFlags struct {
	passphraseFile string
	recipients     []string
}

func (f *sealFlags) addTo(flags *pflag.FlagSet) {
	addPassphraseFlag(flags, &f.passphraseFile)
	flags.StringSliceVar(&f.recipients, "recipient", nil, "Public key to encrypt to, age1..., or a file of such keys. Repeatable.")
}

// given reports whether the user has chosen how to encrypt.
func (f *sealFlags) given() bool { return len(f.recipients) > 0 || f.passphraseFile != "" }

// protection encrypts to the recipients or, if there are none, with a
// passphrase. instead names the flags that make the passphrase unnecessary.
func (f *sealFlags) protection(streams genericiooptions.IOStreams, instead string) (protection backup.Protection, err error) {
	if len(f.recipients) > 0 {
		protection.Recipients, err = parseRecipients(f.recipients)
		return protection, err
	}
	protection.Passphrase, err = passphrase(streams, f.passphraseFile, instead)
	return protection, err
}

func addIdentityFlag(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "identity", "", "File with the private key, for a file that is encrypted to a public key.")
}

// passphrase returns the passphrase from the file, the environment or the terminal. A new
// passphrase must be typed twice; instead names the flags that make it unnecessary.
func passphrase(streams genericiooptions.IOStreams, file, instead string) (string, error) {
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("--passphrase-file: %w", err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return "", fmt.Errorf("--passphrase-file: the first line of %s is empty", file)
		}
		return line, nil
	}
	if value := os.Getenv(passphraseEnv); value != "" {
		return value, nil
	}
	terminal, ok := streams.In.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		next := "give --passphrase-file, set $" + passphraseEnv
		if instead != "" {
			next += ", or give " + instead
		}
		return "", errors.New("the file needs a passphrase, but no terminal is available to ask for it: " + next)
	}
	typed, err := ask(streams.ErrOut, terminal, "Passphrase of the file: ")
	if err != nil || instead == "" {
		return typed, err
	}
	again, err := ask(streams.ErrOut, terminal, "Once more: ")
	if err == nil && again != typed {
		err = errors.New("the passphrases differ")
	}
	return typed, err
}

func ask(out io.Writer, terminal *os.File, prompt string) (string, error) {
	fmt.Fprint(out, prompt)
	typed, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(out)
	if err != nil {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	if len(typed) == 0 {
		return "", errors.New("the passphrase is empty")
	}
	return string(typed), nil
}

// withArgument returns the function of a verb with one argument; what describes the
// argument.
func withArgument(what string, run func(cmd *cobra.Command, argument string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exit.UsageError(cmd.CommandPath(), fmt.Errorf("name %s, and give no other arguments", what))
		}
		return run(cmd, args[0])
	}
}

// loadStoreConfig is loadConfig for callers that need only the place of the
// store.
func loadStoreConfig(file string, flags *pflag.FlagSet, fromFlags server.Config) (server.Config, error) {
	cfg, err := onTop(file, server.LoadConfig, addStoreFlags, flags, fromFlags)
	if err != nil {
		return server.Config{}, err
	}
	dir, err := cli.DataDir(cfg.DataDir)
	cfg.DataDir = string(dir)
	return cfg, err
}

func source(cfg server.Config) backup.Source {
	from := backup.Source{Dir: datadir.Dir(cfg.DataDir), Prefix: cfg.Etcd.Prefix}
	if len(cfg.Etcd.Servers) > 0 {
		remote := cfg.Etcd.Remote()
		from.External = &remote
	}
	return from
}

// printSummary prints the contents of a backup.
func printSummary(out io.Writer, summary backup.Summary) error {
	table := newTable(out)
	fmt.Fprintf(table, "  store\t%s, format %d, revision %d\n", summary.Record.ID, summary.Record.Format, summary.Revision)
	fmt.Fprintf(table, "  saved\t%s by certplane %s\n", summary.Saved.Format(time.RFC3339), summary.Program)
	for _, resource := range slices.Sorted(maps.Keys(summary.Objects)) {
		fmt.Fprintf(table, "  %s\t%d\n", resource, summary.Objects[resource])
	}
	fmt.Fprintf(table, "  encrypted values\t%d\n", summary.Encrypted)
	keys := summary.Record.Keys
	writeKeys(table, keys)
	if err := table.Flush(); err != nil {
		return err
	}
	if !summary.Keys {
		fmt.Fprintln(out, "The file contains no keys: restoring it needs the folder pki from the time of the backup.")
	}
	if len(keys.Encryption) == 0 && summary.Encrypted > 0 {
		fmt.Fprintln(out, "Encrypted values were not read: encryption.configFile names the keys. Keep that file and its keys too.")
	}
	return nil
}
