package program

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
	"github.com/certplane/certplane/internal/store/backup"
)

// newCheck returns the check verb.
func newCheck(streams genericiooptions.IOStreams) *cobra.Command {
	return cli.NewCheck(streams, cli.Checked{
		Manifests: func() ([]runtime.Object, error) {
			return manifests.Objects(manifests.Config{Image: imageOf(buildinfo.Read()), Controllers: cluster.DefaultConfig()})
		},
		NewestBackup: backup.Newest,
	})
}
