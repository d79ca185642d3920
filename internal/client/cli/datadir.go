package cli

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/certplane/certplane/internal/store/datadir"
)

const dataDirFlag = "data-dir"

// AddDataDirFlag adds --data-dir, which is identical for every verb.
func AddDataDirFlag(flags *pflag.FlagSet, value *string) {
	flags.StringVar(value, dataDirFlag, *value, "Folder with the server's data. Default: $"+datadir.Env+
		", otherwise /var/lib/certplane for root, and $XDG_DATA_HOME/certplane or ~/.local/share/certplane for other users.")
}

// DataDir returns the data folder for a value of --data-dir on this machine.
func DataDir(flag string) (datadir.Dir, error) {
	return datadir.Resolve(flag, datadir.Host{Getenv: os.Getenv, UID: os.Geteuid()})
}
