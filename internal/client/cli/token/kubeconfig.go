package token

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/client/cli/kubeconfig"
)

// Kubeconfig returns a file for kubelet's flag --bootstrap-kubeconfig. server holds the
// URL and the CA of the server.
func Kubeconfig(token string, options Options, server *rest.Config, now time.Time) ([]byte, error) {
	const name = "bootstrap"
	data, err := kubeconfig.For(name, name, clientcmdapi.AuthInfo{Token: token}, server)
	if err != nil {
		return nil, err
	}
	return append([]byte(heading(token, options, now)), data...), nil
}

func heading(token string, options Options, now time.Time) string {
	node := ""
	if options.Node != "" {
		node = " for node " + options.Node
	}
	return fmt.Sprintf("# Bootstrap token %s works%s %s.\n# Keep this in a file for a kubelet: --bootstrap-kubeconfig FILE.\n", token, node, options.Until(now))
}
