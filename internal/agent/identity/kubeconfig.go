package identity

import (
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigOf returns a kubeconfig for the server that references the file with the
// certificate and the key. It contains no secret itself.
func kubeconfigOf(server *rest.Config, pair string) clientcmdapi.Config {
	const name = "certplane"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: server.Host, TLSServerName: server.ServerName,
			CertificateAuthorityData: server.CAData, InsecureSkipTLSVerify: server.Insecure,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificate: pair, ClientKey: pair}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}
