package cli

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/request"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// noServerAdvice is the advice for a user without a kubeconfig of a server.
const noServerAdvice = "Start a server with 'certplane serve', or name one with --data-dir, --kubeconfig or $KUBECONFIG."

// kubeconfigAdvice is the advice for a user whose kubeconfig cannot be used.
var kubeconfigAdvice = []string{
	"Fix it, or name another with --kubeconfig, $KUBECONFIG or --data-dir, and one of its contexts with --context.",
	"To see its contexts: certplane kubectl config get-contexts",
}

// connection holds the flags with which a verb finds its server.
type connection struct {
	kubeconfig, context, dataDir string
	// controllers is the namespace of the controllers of a cluster.
	controllers string
}

func (c *connection) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", c.kubeconfig, "Kubeconfig of the server.")
	flags.StringVar(&c.context, "context", c.context, "Context of the kubeconfig to use.")
	AddDataDirFlag(flags, &c.dataDir)
}

// requests connects to the server's certificate signing requests. The server's
// warnings are written to warnings.
func (c *connection) requests(warnings io.Writer) (request.Requests, error) {
	config, err := c.clientConfig(warnings)
	if err != nil {
		return nil, err
	}
	client, err := certificatesv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return client.CertificateSigningRequests(), nil
}

// api connects to the server for reading objects. It drops the server's warnings: the
// user did not write these calls.
func (c *connection) api() (explain.Reader, error) {
	config, err := c.clientConfig(io.Discard)
	if err != nil {
		return nil, err
	}
	log.SetLogger(klog.Background()) // without one, clients print a stack after half a minute
	config.QPS = -1                  // one command sends few requests
	return explain.Connect(config)
}

// given returns the flags with which another command uses the same server.
func (c *connection) given() []string {
	var flags []string
	for _, flag := range []struct{ name, value string }{
		{"kubeconfig", c.kubeconfig}, {"context", c.context}, {dataDirFlag, c.dataDir},
	} {
		if flag.value != "" {
			flags = append(flags, "--"+flag.name, flag.value)
		}
	}
	return flags
}

// command returns a command line of this program for the same server. The flags
// come after the first word if that is kubectl, and otherwise last.
func (c *connection) command(words ...string) []string {
	if words[0] == "kubectl" {
		return slices.Concat([]string{"certplane", "kubectl"}, c.given(), words[1:])
	}
	return slices.Concat([]string{"certplane"}, words, c.given())
}

// line returns such a command line, quoted for a shell.
func (c *connection) line(words ...string) string { return print.CommandLine(c.command(words...)...) }

// lineOn returns such a command line for objects with names that other users have chosen.
func (c *connection) lineOn(names []string, words ...string) string {
	return print.CommandLine(print.Command(append([]string{"certplane"}, words...), names, c.given()...)...)
}

// clientConfig returns the configuration of a client that sends its user agent
// and passes warnings on.
func (c *connection) clientConfig(warnings io.Writer) (*rest.Config, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent("certplane", buildinfo.Read().Version)
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

func (c *connection) restConfig() (*rest.Config, error) {
	loader, err := c.loader()
	if err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, exit.WithNext(fmt.Errorf("no server to talk to: no kubeconfig found"), noServerAdvice)
	case err != nil && c.kubeconfig == "" && os.IsNotExist(err):
		return nil, exit.WithNext(fmt.Errorf("no server has run in this data folder: %w", err), noServerAdvice)
	case err != nil:
		return nil, exit.WithNext(fmt.Errorf("reading the kubeconfig: %w", err), kubeconfigAdvice...)
	}
	return config, nil
}

// in returns the namespace to use, chosen like kubectl does: the given one, otherwise the
// namespace of the kubeconfig's context, otherwise default. It ignores the error of a
// kubeconfig that cannot be read; connecting reports it.
func (c *connection) in(given string) string {
	if given != "" {
		return given
	}
	loader, err := c.loader()
	if err != nil {
		return metav1.NamespaceDefault
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return metav1.NamespaceDefault
	}
	return namespace
}

// addNamespace adds the flag whose value is passed to in.
func addNamespace(flags *pflag.FlagSet, namespace *string, of string) {
	flags.StringVarP(namespace, "namespace", "n", "", "Namespace of "+of+". Default: the namespace of the kubeconfig's context, or default.")
}

// loader returns a loader that reads the kubeconfig when it is called.
func (c *connection) loader() (clientcmd.ClientConfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	if c.kubeconfig == "" {
		path, err := defaultKubeconfig(c.dataDir)
		if err != nil {
			return nil, err
		}
		rules.ExplicitPath = path
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil
}

// defaultKubeconfig returns the admin.kubeconfig to use when there is no
// --kubeconfig, or "" to leave the choice to the usual rules. An explicit data
// folder takes precedence over $KUBECONFIG; the default one is used only if
// neither is set.
func defaultKubeconfig(dataDirFlag string) (string, error) {
	if dataDirFlag == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return "", nil
	}
	dir, err := DataDir(dataDirFlag)
	switch {
	case err != nil && dataDirFlag == "":
		return "", nil
	case err != nil:
		return "", err
	}
	path := dir.AdminKubeconfig()
	if _, err := os.Stat(path); err != nil && dataDirFlag == "" {
		return "", nil
	}
	return path, nil
}

// userAgent identifies a client in the form of the Kubernetes libraries.
func userAgent(program, version string) string {
	info := buildinfo.Read()
	return program + "/" + version + " (" + info.Platform + ") certplane/" + info.Version
}
