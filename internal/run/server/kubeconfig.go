package server

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

// writeKubeconfig writes a self-contained kubeconfig file with the admin's
// credentials that only its owner can read.
func writeKubeconfig(path, serverURL string, credentials *credentials) error {
	const name = "certplane"
	cfg := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: serverURL, CertificateAuthorityData: credentials.servingCA.certPEM},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			"admin": {ClientCertificateData: credentials.admin.certPEM, ClientKeyData: credentials.admin.keyPEM},
		},
		Contexts: map[string]*clientcmdapi.Context{
			name: {Cluster: name, AuthInfo: "admin"},
		},
		CurrentContext: name,
	}
	data, err := clientcmd.Write(cfg)
	if err != nil {
		return fmt.Errorf("encoding the admin kubeconfig: %w", err)
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the admin kubeconfig: %w", err)
	}
	return nil
}
