package program

import (
	"cmp"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
)

// newAdopt returns the adopt verb.
func newAdopt(streams genericiooptions.IOStreams) *cobra.Command {
	return cli.NewAdopt(streams, func(config []byte, image string) ([]runtime.Object, error) {
		cfg, err := cluster.ParseConfig(config)
		if err != nil {
			return nil, err
		}
		return manifests.Objects(manifests.Config{Image: cmp.Or(image, imageOf(buildinfo.Read())), Replicas: manifests.DefaultReplicas, Controllers: cfg})
	})
}
