package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentcli "k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/certplane/certplane/internal/client/cli/exit"
	_ "github.com/certplane/certplane/internal/client/cli/translations"
	"github.com/certplane/certplane/internal/process/buildinfo"
)

// InvokedAsKubectl reports whether the program was started under the name
// kubectl, for example through a symbolic link. The program then has to call
// only RunKubectl.
func InvokedAsKubectl(argv0 string) bool {
	return strings.TrimSuffix(filepath.Base(argv0), ".exe") == "kubectl"
}

// NewKubectl returns the kubectl verb: all of kubectl, built in. Kubectl's own
// commands are created only when the verb runs, so that they do not slow down
// other verbs.
func NewKubectl(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl COMMAND [flags]",
		Short: "Run the built-in kubectl against this data folder's server",
		Long: `The real kubectl, built in. It uses the first of these that exists: --kubeconfig,
admin.kubeconfig in the folder of --data-dir, $KUBECONFIG, admin.kubeconfig in the
default data folder, ~/.kube/config.

Everything else works like kubectl: see 'certplane kubectl --help'. Through a symbolic
link named kubectl, this program is kubectl.`,
		Example: `  certplane kubectl get csr
  certplane kubectl certificate approve alice
  ln -s "$(command -v certplane)" ~/bin/kubectl`,
		DisableFlagParsing: true, // kubectl parses its flags itself
		ValidArgsFunction:  completeKubectl,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runKubectl(streams, cmd.CommandPath(), args)
		},
	}
}

// RunKubectl is the main function of a program named kubectl. On errors it
// does not return: kubectl ends the process with its own exit codes.
func RunKubectl(streams genericiooptions.IOStreams, args []string) error {
	return runKubectl(streams, "kubectl", args)
}

func runKubectl(streams genericiooptions.IOStreams, name string, args []string) error {
	dataDir, args, err := takeDataDir(args)
	if err != nil {
		return exit.UsageError(name, err)
	}
	if err := useServerOf(dataDir); err != nil {
		return err
	}
	// Kubectl handles interrupts itself.
	signal.Reset()
	// The process is kubectl from here on. Kubectl takes the arguments from
	// os.Args if a user's kuberc adds to them, and takes its own name from
	// there.
	os.Args = append([]string{"kubectl"}, args...)
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	hushDefaultServer()
	kubectlutil.BehaviorOnFatal(func(msg string, code int) {
		fmt.Fprint(streams.ErrOut, explainFatal(msg))
		os.Exit(code)
	})
	if err := componentcli.RunNoErrOutput(newKubectlTree(streams, name, os.Args)); err != nil {
		kubectlutil.CheckErr(err)
	}
	return nil
}

// newKubectlTree returns kubectl's root command. name is its name in help
// texts.
func newKubectlTree(streams genericiooptions.IOStreams, name string, argv []string) *cobra.Command {
	flags := kubectlConfigFlags(streams)
	root := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: pluginHandler{kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes)},
		Arguments:     argv,
		ConfigFlags:   flags,
		IOStreams:     streams,
	})
	if name != root.Name() {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	// For help and completion only: takeDataDir removes it from the arguments.
	AddDataDirFlag(root.PersistentFlags(), new(string))
	fixVersion(root, flags, streams)
	return root
}

// kubectlConfigFlags are kubectl's own connection flags and limits.
func kubectlConfigFlags(streams genericiooptions.IOStreams) *genericclioptions.ConfigFlags {
	return genericclioptions.NewConfigFlags(true).
		WithDeprecatedPasswordFlag().
		WithDiscoveryBurst(300).
		WithDiscoveryQPS(50).
		WithWarningPrinter(streams).
		WithWrapConfigFn(func(c *rest.Config) *rest.Config {
			c.UserAgent = userAgent("kubectl", clientVersion(buildinfo.Read().Kubernetes).GitVersion)
			return c
		})
}

// pluginHandler runs kubectl plugins found in PATH.
type pluginHandler struct{ *kubectl.DefaultPluginHandler }

// Execute runs the plugin without KUBECTL_PATH, which names this program: under
// its own name it is not a kubectl.
func (h pluginHandler) Execute(path string, args, env []string) error {
	env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "KUBECTL_PATH=") })
	return h.DefaultPluginHandler.Execute(path, args, env)
}

// takeDataDir separates --data-dir from kubectl's arguments. Kubectl does not
// parse what follows a "--", so takeDataDir does not either.
func takeDataDir(args []string) (dir string, rest []string, err error) {
	const flag = "--" + dataDirFlag
	for i := 0; i < len(args); i++ {
		value, inline := strings.CutPrefix(args[i], flag+"=")
		switch {
		case inline:
			dir = value
		case args[i] == flag && i+1 == len(args):
			return "", nil, fmt.Errorf("flag needs an argument: %s", flag)
		case args[i] == flag:
			i++
			dir = args[i]
		case args[i] == "--":
			return dir, append(rest, args[i:]...), nil
		default:
			rest = append(rest, args[i])
		}
	}
	return dir, rest, nil
}

// useServerOf points kubectl at the data folder's server, in the only way that
// all its commands respect, including "config".
func useServerOf(dataDirFlag string) error {
	path, err := defaultKubeconfig(dataDirFlag)
	if err != nil || path == "" {
		return err
	}
	return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, path)
}

// defaultServer is the server that kubectl uses without any kubeconfig.
const defaultServer = "localhost:8080"

// hushDefaultServer keeps kubectl's discovery from logging each of its attempts to reach
// the default server: explainFatal reports the failure once.
func hushDefaultServer() {
	for i, handle := range utilruntime.ErrorHandlers {
		utilruntime.ErrorHandlers[i] = func(ctx context.Context, err error, msg string, keysAndValues ...any) {
			if err == nil || !strings.Contains(err.Error(), defaultServer) {
				handle(ctx, err, msg, keysAndValues...)
			}
		}
	}
}

// explainFatal adds advice to kubectl's error that nothing listens on the default
// server.
func explainFatal(msg string) string {
	if msg != "" && !strings.HasSuffix(msg, "\n") {
		msg += "\n"
	}
	if !strings.Contains(msg, defaultServer) {
		return msg
	}
	return msg + noServerAdvice + "\n"
}
