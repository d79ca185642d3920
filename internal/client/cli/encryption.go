package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/rotate"
)

const rotateLong = `Changes the key with which a running server encrypts stored objects, such as
Secrets: it creates a new key, has all objects stored again with it, and removes
the old key. The server keeps serving during the change.

If it is interrupted, run it again: it continues where it stopped.

Servers that share an etcd need the same keys. Use --one-step there: each call
takes one of the three steps. After each, copy the keys to all other servers, with
'certplane pki export' here and 'certplane pki import' there. They use them within
seconds.

Run it on the machine with the file, as a user who may write it.`

// NewEncryption returns the encryption verb with its subcommands.
func NewEncryption(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "encryption",
		Short: "Manage the keys that encrypt stored objects",
	}
	cmd.AddCommand(newRotate(streams))
	return cmd
}

func newRotate(streams genericiooptions.IOStreams) *cobra.Command {
	var server connection
	var file string
	var oneStep bool
	cmd := &cobra.Command{
		Use:     "rotate",
		Short:   "Change the key that encrypts stored objects",
		Long:    rotateLong,
		Example: "  certplane encryption rotate --data-dir ./data",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := DataDir(server.dataDir)
			if err != nil {
				return err
			}
			if file == "" {
				file = dir.EncryptionKeys()
			}
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				return exit.WithNext(fmt.Errorf("finding the encryption keys: %w", err),
					"The keys are files on the server's machine, which a kubeconfig does not name: give the data folder with --data-dir, or the file with --file.")
			}
			if server.kubeconfig == "" {
				server.dataDir = string(dir) // the keys and the server belong together
			}
			config, err := server.restConfig()
			if err != nil {
				return err
			}
			api, err := rotate.NewAPI(config)
			if err != nil {
				return err
			}
			err = rotate.Run(cmd.Context(), rotate.Config{File: file, Server: api, OneStep: oneStep, Out: streams.Out})
			if err != nil {
				return exit.WithNext(err, "No data is lost. Run the command again to continue.")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "file", file, "File with the keys. Default: pki/encryption.yaml in the data folder.")
	cmd.Flags().BoolVar(&oneStep, "one-step", oneStep, "Stop after each change of the file, for servers that share an etcd.")
	server.addTo(cmd.Flags())
	return cmd
}
