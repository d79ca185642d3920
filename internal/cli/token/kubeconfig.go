package token

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns a file for kubelet's flag --bootstrap-kubeconfig. server
// has the URL and the CA of the server.
func Kubeconfig(token string, options Options, server *rest.Config, now time.Time) ([]byte, error) {
	const name = "bootstrap"
	withCA := rest.CopyConfig(server)
	if err := rest.LoadTLSFiles(withCA); err != nil {
		return nil, fmt.Errorf("reading the server's CA: %w", err)
	}
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   withCA.Host,
			TLSServerName:            withCA.ServerName,
			CertificateAuthorityData: withCA.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the bootstrap kubeconfig: %w", err)
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
