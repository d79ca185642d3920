package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/buildinfo"
	"github.com/certplane/certplane/internal/cluster"
	"github.com/certplane/certplane/internal/manifests"
)

// newManifests returns the manifests verb.
func newManifests(streams genericiooptions.IOStreams) *cobra.Command {
	var configFile string
	flags, image := cluster.DefaultConfig(), defaultImage()
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print what installs the controllers in a cluster",
		Long: `Prints the YAML that installs "certplane controllers" in a Kubernetes cluster:
two pods, of which one works, each controller with an account and rights of its own.`,
		Example: `  certplane manifests --image registry.example.com/certplane:v1 | kubectl apply --server-side -f -
  kubectl --namespace certplane-system create secret tls certplane-ca --cert ca.crt --key ca.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := onTop(configFile, cluster.LoadConfig, addManifestsFlags, cmd.Flags(), flags)
			if err != nil {
				return err
			}
			return manifests.Write(streams.Out, manifests.Config{Image: image, Controllers: cfg})
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "Configuration file of the controllers to install.")
	cmd.Flags().StringVar(&image, "image", image, "Container image of this program. The default image is in no registry: build and push it first.")
	addManifestsFlags(cmd.Flags(), &flags)
	return cmd
}

// addManifestsFlags adds the flags for fields of the configuration.
func addManifestsFlags(flags *pflag.FlagSet, cfg *cluster.Config) {
	flags.StringVar(&cfg.Namespace, "namespace", cfg.Namespace, "Namespace to install into.")
	addChoice(flags, &cfg.Controllers, "install")
}

// defaultImage returns the name of an image of this version, without a
// registry: the cluster's nodes use their default.
func defaultImage() string {
	return "certplane:" + strings.NewReplacer("(", "", ")", "", "+", "-").Replace(buildinfo.Read().Version)
}
