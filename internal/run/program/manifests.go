package program

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
)

// newManifests returns the manifests verb.
func newManifests(streams genericiooptions.IOStreams) *cobra.Command {
	var configFile string
	var revocations bool
	flags, build := cluster.DefaultConfig(), buildinfo.Read()
	install := manifests.Config{Image: imageOf(build), Replicas: manifests.DefaultReplicas}
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the manifests that install the controllers in a cluster",
		Long: `Prints the YAML that installs "certplane controllers" in a Kubernetes cluster:
two pods, one of them active, and an account with its own rights for each controller.`,
		Example: `  certplane manifests --image registry.example.com/certplane:v1 | kubectl apply --server-side -f -
  certplane manifests --image registry.example.com/certplane:v1 --replicas 3 --limits memory=1Gi
  kubectl --namespace certplane-system create secret tls certplane-ca --cert ca.crt --key ca.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := onTop(configFile, cluster.LoadConfig, addManifestsFlags, cmd.Flags(), flags)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("image") && !build.IsRelease() {
				fmt.Fprintf(streams.ErrOut, "Warning: %s is not a released image: build and push an image, and name it with --image\n", install.Image)
			}
			install.Controllers = cfg
			if revocations {
				return manifests.WriteRevocation(streams.Out, install)
			}
			return manifests.Write(streams.Out, install)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "Configuration file of the controllers to install.")
	cmd.Flags().BoolVar(&revocations, "revocation-webhook", false, "Print instead what makes kube-apiserver refuse the client certificates that Revocations name.")
	cmd.Flags().Int32Var(&install.Replicas, "replicas", install.Replicas, "Number of pods. One of them is active.")
	cmd.Flags().StringToStringVar(&install.Requests, "requests", nil, "Resource requests of a pod. Default: cpu=50m,memory=64Mi. 0 for none.")
	cmd.Flags().StringToStringVar(&install.Limits, "limits", nil, "Resource limits of a pod. Default: memory=512Mi. 0 for none.")
	cmd.Flags().StringVar(&install.Image, "image", install.Image, "Container image of this program. No registry has the default image: build and push it first.")
	addManifestsFlags(cmd.Flags(), &flags)
	return cmd
}

// addManifestsFlags adds the flags for fields of the configuration.
func addManifestsFlags(flags *pflag.FlagSet, cfg *cluster.Config) {
	flags.StringVar(&cfg.Namespace, "namespace", cfg.Namespace, "Namespace to install to.")
	addChoice(flags, &cfg.Controllers, "install")
}

// imageOf returns the name of an image of a build, without a registry: the
// cluster's nodes use their default.
func imageOf(build buildinfo.Info) string {
	return "certplane:" + strings.NewReplacer("(", "", ")", "", "+", "-").Replace(build.Version)
}
