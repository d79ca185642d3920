package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/apitest/freeport"
	"github.com/certplane/certplane/internal/pki"
)

// kubernetesPeers are the programs of a Kubernetes control plane that certplane
// replaces.
var kubernetesPeers = []string{"etcd", "kube-apiserver", "kube-controller-manager"}

// adminKubeconfig is the file with all rights, in the folder of a control plane.
const adminKubeconfig = "admin.kubeconfig"

const day = 24 * time.Hour

// startKubernetes starts a control plane with every limit on its controllers
// removed, as fast as it can be configured.
func startKubernetes(ctx context.Context, opts options) (*system, error) {
	return startControlPlane(ctx, opts, nil, (*controlPlane).startControllerManager)
}

// startControlPlane starts etcd, kube-apiserver with more flags, and other components.
func startControlPlane(ctx context.Context, opts options, flags []string, others ...func(*controlPlane, context.Context) error) (*system, error) {
	return startSystem(kubernetesSystem, func(s *system) error {
		k := &controlPlane{system: s, assets: opts.assets, flags: flags}
		if err := k.makePKI(); err != nil {
			return fmt.Errorf("making the certificates of Kubernetes: %w", err)
		}
		begin := time.Now()
		for _, start := range append([]func(*controlPlane, context.Context) error{(*controlPlane).startEtcd, (*controlPlane).startAPIServer}, others...) {
			if err := start(k, ctx); err != nil {
				return err
			}
		}
		k.startup = time.Since(begin)
		return nil
	})
}

type controlPlane struct {
	*system
	assets  string
	flags   []string // of kube-apiserver
	etcdURL string
}

// makePKI makes one CA, which the signers also use, and the certificates and keys of the
// components.
func (k *controlPlane) makePKI() error {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "kubernetes", key, day, time.Now())
	if err != nil {
		return err
	}
	_, err1 := k.issue(ca, "apiserver", pki.Subject{CommonName: "kube-apiserver", DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, pki.ServerUsages())
	admin, err2 := k.issue(ca, "admin", pki.Subject{CommonName: "admin", Organizations: []string{"system:masters"}}, pki.ClientUsages())
	tokens, err3 := pki.GenerateKey(pki.ECDSAP256)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	caPEM := pki.EncodeCertificates(ca.Certificate())
	k.admin = &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: caPEM, CertData: admin.cert, KeyData: admin.key}}
	return errors.Join(
		os.WriteFile(k.path("ca.crt"), caPEM, 0o600),
		k.writeKey("ca.key", key),
		k.writeKey("tokens.key", tokens),
	)
}

type credential struct{ cert, key []byte }

// issue makes a certificate, in memory and as two files.
func (k *controlPlane) issue(ca *pki.Authority, name string, s pki.Subject, usages pki.Usages) (credential, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return credential{}, err
	}
	chain, err := ca.Issue(pki.UnrecordedSigning, s, key.Public(), usages, day, time.Now())
	if err != nil {
		return credential{}, err
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		return credential{}, err
	}
	made := credential{cert: pki.EncodeCertificates(chain...), key: keyPEM}
	return made, errors.Join(
		os.WriteFile(k.path(name+".crt"), made.cert, 0o600),
		os.WriteFile(k.path(name+".key"), made.key, 0o600),
	)
}

// writeKey writes a key in SEC 1, the one form that kube-apiserver accepts both
// for signing tokens and for verifying them.
func (k *controlPlane) writeKey(name string, key crypto.Signer) error {
	der, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	if err != nil {
		return err
	}
	return os.WriteFile(k.path(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func (k *controlPlane) path(name string) string { return filepath.Join(k.dir, name) }

// run starts one of the programs.
func (k *controlPlane) run(name string, args ...string) error {
	return k.start(filepath.Join(k.assets, name), args...)
}

// startEtcd starts etcd with its defaults: every write is synced to disk.
func (k *controlPlane) startEtcd(context.Context) error {
	client, err := freeport.Address()
	if err != nil {
		return err
	}
	peer, err := freeport.Address()
	if err != nil {
		return err
	}
	k.etcdURL = "http://" + client
	return k.run("etcd", "--data-dir=etcd", "--quota-backend-bytes=8589934592", // the most that etcd recommends
		"--listen-client-urls="+k.etcdURL, "--advertise-client-urls="+k.etcdURL,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=default=http://"+peer,
	)
}

func (k *controlPlane) startAPIServer(ctx context.Context) error {
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	k.admin.Host = "https://" + address
	err = k.run("kube-apiserver", append([]string{
		"--etcd-servers=" + k.etcdURL,
		"--bind-address=127.0.0.1", "--secure-port=" + port,
		"--tls-cert-file=" + k.path("apiserver.crt"), "--tls-private-key-file=" + k.path("apiserver.key"),
		"--client-ca-file=" + k.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + k.path("tokens.key"), "--service-account-signing-key-file=" + k.path("tokens.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
	}, k.flags...)...)
	if err != nil {
		return err
	}
	if err := k.awaitHealth(ctx, "kube-apiserver", k.admin, "/readyz"); err != nil {
		return err
	}
	return writeKubeconfig(k.path(adminKubeconfig), k.admin)
}

func (k *controlPlane) startControllerManager(ctx context.Context) error {
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	kubeconfig := k.path(adminKubeconfig)
	err = k.run("kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--controllers=certificatesigningrequest-signing-controller",
		"--cluster-signing-cert-file="+k.path("ca.crt"), "--cluster-signing-key-file="+k.path("ca.key"),
		"--kube-api-qps=10000", "--kube-api-burst=20000", "--kube-api-content-type=application/vnd.kubernetes.protobuf",
		"--use-service-account-credentials=false", "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+k.path("controller-manager"),
	)
	if err != nil {
		return err
	}
	health := rest.AnonymousClientConfig(&rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	return k.awaitHealth(ctx, "kube-controller-manager", health, "/healthz")
}

func (k *controlPlane) awaitHealth(ctx context.Context, name string, cfg *rest.Config, path string) error {
	return k.await(ctx, name+" is healthy", func(ctx context.Context) bool {
		_, err := get(ctx, cfg, path, nil)
		return err == nil
	})
}

func writeKubeconfig(path string, cfg *rest.Config) error {
	const name = "bench"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}
