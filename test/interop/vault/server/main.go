// Command vault runs the core of HashiCorp Vault for tests: the PKI secrets
// engine and the logins that issuers use, with the API of the real server.
//
// It is a separate module, and only tests run the program: Vault is under the
// Business Source License, which permits this, and the product must not depend
// on it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	jwt "github.com/hashicorp/vault-plugin-auth-jwt"
	kubernetes "github.com/hashicorp/vault-plugin-auth-kubernetes"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/credential/cert"
	"github.com/hashicorp/vault/builtin/logical/pki"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/file"
	"github.com/hashicorp/vault/vault"
)

// options are the command line.
type options struct {
	data, listen, cert, key, clientCA string
}

func main() {
	var o options
	flag.StringVar(&o.data, "data", "", "folder of the data; it is kept")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8200", "address to listen on")
	flag.StringVar(&o.cert, "cert", "", "file with the server's certificate; without it, the server speaks plain HTTP")
	flag.StringVar(&o.key, "key", "", "file with the key of the certificate")
	flag.StringVar(&o.clientCA, "client-ca", "", "file with the CAs of client certificates; with it, every connection must have one")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "vault:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	core, err := newCore(o.data)
	if err != nil {
		return err
	}
	listener, err := o.open()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: vaulthttp.Handler.Handler(&vault.HandlerProperties{
		Core: core, ListenerConfig: &configutil.Listener{Address: listener.Addr().String()},
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		err = server.Close()
	}
	return errors.Join(err, core.Shutdown())
}

// newCore returns a core that is sealed, or not initialized.
func newCore(folder string) (*vault.Core, error) {
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr})
	storage, err := file.NewFileBackend(map[string]string{"path": folder}, logger)
	if err != nil {
		return nil, fmt.Errorf("opening the storage: %w", err)
	}
	return vault.NewCore(&vault.CoreConfig{
		Physical: storage, StorageType: "file", Logger: logger, DisableMlock: true,
		LogicalBackends: secrets, CredentialBackends: logins, BuiltinRegistry: plugins{},
	})
}

// open returns the listener, with TLS if there is a certificate. Client
// certificates may be self-signed: the login by certificate checks them.
func (o options) open() (net.Listener, error) {
	listener, err := net.Listen("tcp", o.listen)
	if err != nil || o.cert == "" {
		return listener, err
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, ClientAuth: tls.RequestClientCert}
	if o.clientCA != "" {
		bundle, err := os.ReadFile(o.clientCA)
		if err != nil {
			return nil, err
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("%s has no certificates", o.clientCA)
		}
	}
	return tls.NewListener(listener, config), nil
}

var (
	secrets = map[string]logical.Factory{"pki": pki.Factory}
	logins  = map[string]logical.Factory{
		"approle": approle.Factory, "cert": cert.Factory, "kubernetes": kubernetes.Factory, "jwt": jwt.Factory,
	}
)

// plugins says that the above are all plugins that there are.
type plugins struct{}

func of(kind consts.PluginType) map[string]logical.Factory {
	switch kind {
	case consts.PluginTypeSecrets:
		return secrets
	case consts.PluginTypeCredential:
		return logins
	}
	return nil
}

func (plugins) Contains(name string, kind consts.PluginType) bool { return of(kind)[name] != nil }

func (plugins) Get(name string, kind consts.PluginType) (func() (any, error), bool) {
	factory, ok := of(kind)[name]
	return func() (any, error) { return factory, nil }, ok
}

func (plugins) Keys(kind consts.PluginType) []string {
	var names []string
	for name := range of(kind) {
		names = append(names, name)
	}
	return names
}

func (plugins) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, of(kind)[name] != nil
}

func (plugins) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }
