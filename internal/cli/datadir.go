package cli

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/certplane/certplane/internal/datadir"
)

const dataDirFlag = "data-dir"

// AddDataDirFlag adds --data-dir, which is the same for every verb.
func AddDataDirFlag(flags *pflag.FlagSet, value *string) {
	flags.StringVar(value, dataDirFlag, *value, "Folder of the server's data. Defaults to $"+datadir.Env+
		", else /var/lib/certplane for root and $XDG_DATA_HOME/certplane or ~/.local/share/certplane for others.")
}

// DataDir returns the data folder that a --data-dir value stands for on this machine.
func DataDir(flag string) (datadir.Dir, error) {
	return datadir.Resolve(flag, datadir.Host{Getenv: os.Getenv, UID: os.Geteuid()})
}
