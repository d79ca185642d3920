package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	componentversion "k8s.io/component-base/version"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubectlversion "k8s.io/kubectl/pkg/cmd/version"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/process/buildinfo"
)

// unstamped is the prefix of the version that the Kubernetes libraries report
// unless linker flags set one. It is not a semantic version, and kubectl's own
// version command fails on it if there is a server to compare with.
const unstamped = "v0.0.0-master+$Format"

// fixVersion makes "kubectl version" print the version of the libraries that it
// is built from, if no linker flags set one.
func fixVersion(root *cobra.Command, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) {
	if !strings.HasPrefix(componentversion.Get().GitVersion, unstamped) {
		return
	}
	found, _, err := root.Find([]string{"version"})
	if err != nil || found == root {
		return
	}
	for _, cmd := range root.Commands() {
		// Aliases in a user's kuberc are copies of the command under other
		// names.
		if cmd.Short == found.Short {
			cmd.Run = func(cmd *cobra.Command, args []string) {
				kubectlutil.CheckErr(printKubectlVersion(cmd, args, flags, streams))
			}
		}
	}
}

func printKubectlVersion(cmd *cobra.Command, args []string, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) error {
	if len(args) != 0 {
		return fmt.Errorf("extra arguments: %v", args)
	}
	output := kubectlutil.GetFlagString(cmd, "output")
	if output != "" && output != "json" && output != "yaml" {
		return errors.New("--output must be 'yaml' or 'json'")
	}
	v := kubectlversion.Version{ClientVersion: clientVersion(buildinfo.Read().Kubernetes)}
	v.KustomizeVersion, _ = kubectlversion.GetKustomizeModVersion()
	var serverErr error
	if !kubectlutil.GetFlagBool(cmd, "client") {
		v.ServerVersion, serverErr = serverVersion(flags)
	}
	if err := writeKubectlVersion(streams.Out, output, v); err != nil {
		return err
	}
	if serverErr != nil || v.ServerVersion == nil {
		return serverErr
	}
	return warnOfSkew(streams.ErrOut, v, kubectlutil.GetFlagBool(cmd, "warnings-as-errors"))
}

// clientVersion describes the built-in kubectl, which has the version of the Kubernetes
// libraries. A build without recorded versions still reports the minor version.
func clientVersion(libraries string) *apimachineryversion.Info {
	info := componentversion.Get()
	parsed, err := version.ParseSemantic(libraries)
	if err != nil {
		libraries = "v" + componentversion.DefaultKubeBinaryVersion + ".0"
		parsed = version.MustParseSemantic(libraries)
	}
	info.GitVersion = libraries
	info.Major, info.Minor = fmt.Sprint(parsed.Major()), fmt.Sprint(parsed.Minor())
	info.GitCommit, info.GitTreeState, info.BuildDate = "", "", ""
	return &info
}

// serverVersion returns neither a version nor an error if no server is
// configured.
func serverVersion(flags *genericclioptions.ConfigFlags) (*apimachineryversion.Info, error) {
	client, err := flags.ToDiscoveryClient()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	client.Invalidate()
	return client.ServerVersion()
}

func writeKubectlVersion(out io.Writer, output string, v kubectlversion.Version) error {
	switch output {
	case "json":
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, string(data))
		return err
	case "yaml":
		data, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, string(data))
		return err
	}
	_, err := fmt.Fprintf(out, "Client Version: %s\nKustomize Version: %s\n", v.ClientVersion.GitVersion, v.KustomizeVersion)
	if err == nil && v.ServerVersion != nil {
		_, err = fmt.Fprintf(out, "Server Version: %s\n", v.ServerVersion.GitVersion)
	}
	return err
}

// warnOfSkew prints a warning if client and server are more than one minor
// version apart (https://kubernetes.io/releases/version-skew-policy/#kubectl).
func warnOfSkew(w io.Writer, v kubectlversion.Version, isError bool) error {
	client, err := version.ParseSemantic(v.ClientVersion.GitVersion)
	if err != nil {
		return fmt.Errorf("client version error: %w", err)
	}
	server, err := version.ParseSemantic(v.ServerVersion.GitVersion)
	if err != nil {
		return fmt.Errorf("server version error: %w", err)
	}
	if client.Major() == server.Major() && max(client.Minor(), server.Minor())-min(client.Minor(), server.Minor()) <= 1 {
		return nil
	}
	warning := fmt.Sprintf("version difference between client (%d.%d) and server (%d.%d) exceeds the supported minor version skew of +/-1",
		client.Major(), client.Minor(), server.Major(), server.Minor())
	if isError {
		return errors.New(warning)
	}
	fmt.Fprintf(w, "Warning: %s\n", warning)
	return nil
}
