// Package kubeconfig makes kubeconfigs for other users of a server.
package kubeconfig

import (
	"crypto"
	"crypto/x509"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/pki"
)

// For returns a kubeconfig with one user and one cluster, whose address and CA are
// those of server. The credentials of server are not in it.
func For(cluster, user string, credentials clientcmdapi.AuthInfo, server *rest.Config) ([]byte, error) {
	withCA := rest.CopyConfig(server)
	if err := rest.LoadTLSFiles(withCA); err != nil {
		return nil, fmt.Errorf("reading the server's CA: %w", err)
	}
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{cluster: {
			Server:                   withCA.Host,
			TLSServerName:            withCA.ServerName,
			CertificateAuthorityData: withCA.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: &credentials},
		Contexts:       map[string]*clientcmdapi.Context{user: {Cluster: cluster, AuthInfo: user}},
		CurrentContext: user,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return data, nil
}

// ForCertificate returns a kubeconfig for the user that a client certificate names.
func ForCertificate(chain []*x509.Certificate, key crypto.Signer, server *rest.Config) ([]byte, error) {
	private, err := pki.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	credentials := clientcmdapi.AuthInfo{ClientCertificateData: pki.EncodeCertificates(chain...), ClientKeyData: private}
	return For("certplane", chain[0].Subject.CommonName, credentials, server)
}
