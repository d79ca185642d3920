package program

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/backup"
	"github.com/certplane/certplane/internal/buildinfo"
	"github.com/certplane/certplane/internal/cli"
	"github.com/certplane/certplane/internal/cluster"
	"github.com/certplane/certplane/internal/manifests"
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
