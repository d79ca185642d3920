// Package identity obtains the credentials with which the agent authenticates.
package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/agent/contact"
)

const (
	// pairName is the prefix of the files of certificates, in kubelet's scheme.
	pairName = "certplane-agent-client"
	// poll is the interval between checks whether a certificate was issued.
	poll = 100 * time.Millisecond
	// checkTimeout is the time limit for the server's answer whether a token is valid.
	checkTimeout = 10 * time.Second
)

// Config describes the identity of the agent.
type Config struct {
	// Node is the name of the host's Node.
	Node string
	// Kubeconfig, if set, is used by the agent unchanged.
	Kubeconfig string
	// BootstrapKubeconfig is a file with the address of the API and a token for the first
	// certificate. It is not needed after that.
	BootstrapKubeconfig string
	// Dir is the folder for the certificates and the address of the API.
	Dir string
	// Contact observes all calls.
	Contact *contact.Tracker
	// Clock is the clock.
	Clock clock.PassiveClock
	// Waits is called with the reason why Open waits, whenever the reason changes.
	Waits func(string)
}

// Identity holds the credentials with which the agent calls the API.
type Identity struct {
	// Config is the client configuration. Its certificate is renewed
	// automatically.
	Config *rest.Config

	manager certificate.Manager // nil if Kubeconfig is set
}

// Certificate returns the certificate with which the host authenticates; nil if it uses
// other credentials.
func (i *Identity) Certificate() *x509.Certificate {
	if i.manager != nil {
		if current := i.manager.Current(); current != nil {
			return current.Leaf
		}
		return nil
	}
	content := i.Config.CertData
	if len(content) == 0 && i.Config.CertFile != "" {
		content, _ = os.ReadFile(i.Config.CertFile) // without the file, calls fail too
	}
	if certs, err := certutil.ParseCertsPEM(content); err == nil {
		return certs[0]
	}
	return nil
}

// Stop ends the renewal of the certificate.
func (i *Identity) Stop() {
	if i.manager != nil {
		i.manager.Stop()
	}
}

// passingError is an error of Open that can pass without a change of the configuration.
type passingError struct{ error }

func (e passingError) Unwrap() error { return e.error }

// IsPassing reports whether an error of Open can pass: Open succeeds once the host has
// another token, or its clock is right. All other errors concern the configuration.
func IsPassing(err error) bool { return errors.As(err, &passingError{}) }

// Open returns the agent's identity. Without a valid certificate it requests one, and waits
// until it is signed or ctx ends. If the file with the bootstrap token changes during the
// wait, it returns a passing error.
func Open(ctx context.Context, cfg Config) (*Identity, error) {
	if cfg.Kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig %s: %w", cfg.Kubeconfig, err)
		}
		cfg.Contact.Watch(config)
		return &Identity{Config: config}, nil
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the agent's certificate: %w", err)
	}
	o, err := newOpening(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return o.open(ctx)
}

// opening is the state while an identity is obtained.
type opening struct {
	// refusal is the reason why the server refused the last request for a certificate; nil
	// if it did not refuse.
	refusal atomic.Pointer[string]
	cfg     Config
	// bootstrap is nil if the file does not exist.
	bootstrap *rest.Config
	// bootstrapAt is when the bootstrap kubeconfig was written.
	bootstrapAt time.Time
	// certConfig uses the certificate in the store.
	certConfig *rest.Config
	store      certificate.FileStore
}

func newOpening(ctx context.Context, cfg Config) (*opening, error) {
	store, err := certificate.NewFileStoreWithLogger(klog.FromContext(ctx), pairName, cfg.Dir, cfg.Dir, "", "")
	if err != nil {
		return nil, fmt.Errorf("opening the agent's certificates in %s: %w", cfg.Dir, err)
	}
	o := &opening{cfg: cfg, store: store}
	if err := o.readBootstrap(); err != nil {
		return nil, err
	}
	server, err := o.server()
	if err != nil {
		return nil, err
	}
	o.certConfig = rest.AnonymousClientConfig(server)
	// One file contains the certificate and the key. The client reads it repeatedly.
	o.certConfig.CertFile, o.certConfig.KeyFile = store.CurrentPath(), store.CurrentPath()
	cfg.Contact.Watch(o.certConfig)
	if o.bootstrap != nil {
		cfg.Contact.Watch(o.bootstrap)
	}
	return o, nil
}

func (o *opening) readBootstrap() error {
	if o.cfg.BootstrapKubeconfig == "" {
		return nil
	}
	o.bootstrapAt = writtenAt(o.cfg.BootstrapKubeconfig) // before it is read
	config, err := clientcmd.BuildConfigFromFlags("", o.cfg.BootstrapKubeconfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the bootstrap kubeconfig %s: %w", o.cfg.BootstrapKubeconfig, err)
	}
	if err == nil {
		o.bootstrap = config
	}
	return nil
}

// writtenAt returns when a file was written; zero if it does not exist.
func writtenAt(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// server returns the address of the API from the bootstrap kubeconfig or, without one, the
// address that was saved when the agent got its certificate.
func (o *opening) server() (*rest.Config, error) {
	if o.bootstrap != nil {
		return o.bootstrap, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.serverFile())
	if errors.Is(err, fs.ErrNotExist) && o.cfg.BootstrapKubeconfig != "" {
		return nil, passingError{fmt.Errorf("this host has no identity yet, and the file %s does not exist: put a kubeconfig with a bootstrap token there ('certplane token create' prints one)", o.cfg.BootstrapKubeconfig)}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this host has no identity yet: name a kubeconfig with a bootstrap token with --bootstrap-kubeconfig ('certplane token create' prints one), or the host's own kubeconfig with --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.serverFile(), err)
	}
	return config, nil
}

func (o *opening) serverFile() string { return filepath.Join(o.cfg.Dir, "server.kubeconfig") }

func (o *opening) open(ctx context.Context) (*Identity, error) {
	if err := o.checkName(); err != nil {
		return nil, err
	}
	if err := o.checkBootstrap(ctx); err != nil {
		return nil, err
	}
	manager, err := o.newManager(ctx)
	if err != nil {
		return nil, fmt.Errorf("maintaining the agent's certificate: %w", err)
	}
	manager.Start()
	if err := o.await(ctx, manager); err != nil {
		manager.Stop()
		return nil, err
	}
	if err := o.saveServer(); err != nil {
		manager.Stop()
		return nil, err
	}
	return &Identity{Config: o.certConfig, manager: manager}, nil
}

// await waits for the certificate, and reports why it is still missing.
func (o *opening) await(ctx context.Context, manager certificate.Manager) error {
	reason := ""
	arrived := func(context.Context) (bool, error) {
		if manager.Current() != nil {
			return true, nil
		}
		if o.cfg.BootstrapKubeconfig != "" && !writtenAt(o.cfg.BootstrapKubeconfig).Equal(o.bootstrapAt) {
			return false, passingError{fmt.Errorf("the file %s has changed", o.cfg.BootstrapKubeconfig)}
		}
		if next := o.missing(); next != reason {
			reason = next
			o.cfg.Waits(reason)
		}
		return false, nil
	}
	err := wait.PollUntilContextCancel(ctx, poll, true, arrived)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("%s: %w", o.missing(), context.Cause(ctx))
	}
	return err
}

// missing returns the reason why the certificate is still missing.
func (o *opening) missing() string {
	if state := o.cfg.Contact.State(); state.Error != "" {
		return fmt.Sprintf("waiting for the certificate of node %s: server %s: %s", o.cfg.Node, state.URL, state.Error)
	}
	if refusal := o.refusal.Load(); refusal != nil {
		return fmt.Sprintf("waiting for the certificate of node %s: the server refuses the request: %s", o.cfg.Node, *refusal)
	}
	return fmt.Sprintf("waiting for the certificate of node %s: is its request approved? See 'certplane kubectl get csr'", o.cfg.Node)
}

// checkName returns an error for a certificate with another name: the host was renamed, or
// the folder belongs to another host.
func (o *opening) checkName() error {
	current, err := o.store.Current()
	if err != nil || current.Leaf == nil || current.Leaf.Subject.CommonName == o.user() {
		return nil
	}
	return fmt.Errorf("the certificate in %s is for %s, not for node %s: remove the folder to ask for another, or set --node-name", o.cfg.Dir, current.Leaf.Subject.CommonName, o.cfg.Node)
}

// user returns the name of the node's user.
func (o *opening) user() string { return "system:node:" + o.cfg.Node }

// checkBootstrap returns an error early if a certificate cannot be obtained.
func (o *opening) checkBootstrap(ctx context.Context) error {
	if o.hasGood() {
		return nil
	}
	if o.bootstrap == nil {
		return passingError{o.expired()}
	}
	client, err := kubernetes.NewForConfig(o.bootstrap)
	if err != nil {
		return fmt.Errorf("reading the bootstrap kubeconfig %s: %w", o.cfg.BootstrapKubeconfig, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsUnauthorized(err) {
		return passingError{fmt.Errorf("the server does not know the token in %s: has it expired? 'certplane token create' makes a new one", o.cfg.BootstrapKubeconfig)}
	}
	return nil // the manager retries everything beyond this
}

// expired returns the error for a host without a valid certificate and without a bootstrap
// kubeconfig.
func (o *opening) expired() error {
	text := "the certificate of this host is missing"
	if current, err := o.store.Current(); err == nil && current.Leaf != nil {
		text = "the certificate of this host expired at " + current.Leaf.NotAfter.UTC().Format(time.RFC3339) + " by this host's clock"
	}
	if o.cfg.BootstrapKubeconfig != "" {
		return fmt.Errorf("%s: put a kubeconfig with a bootstrap token at %s ('certplane token create' prints one)", text, o.cfg.BootstrapKubeconfig)
	}
	return fmt.Errorf("%s: name a kubeconfig with a bootstrap token with --bootstrap-kubeconfig ('certplane token create' prints one)", text)
}

func (o *opening) hasGood() bool {
	current, err := o.store.Current()
	return err == nil && current.Leaf != nil && o.cfg.Clock.Now().Before(current.Leaf.NotAfter)
}

func (o *opening) newManager(ctx context.Context) (certificate.Manager, error) {
	return certificate.NewManager(&certificate.Config{
		Ctx:  &ctx,
		Name: "node-identity",
		ClientsetFn: func(current *tls.Certificate) (kubernetes.Interface, error) {
			client, err := kubernetes.NewForConfig(o.requestConfig(current))
			return refusable{client, &o.refusal}, err
		},
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Template: &x509.CertificateRequest{Subject: pkix.Name{
			CommonName: o.user(), Organization: []string{"system:nodes"},
		}},
		Usages:           []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		CertificateStore: o.store,
	})
}

// requestConfig returns the configuration for the next request: the agent's own or, without
// a valid certificate, the bootstrap kubeconfig.
func (o *opening) requestConfig(current *tls.Certificate) *rest.Config {
	if current != nil && current.Leaf != nil && o.cfg.Clock.Now().Before(current.Leaf.NotAfter) {
		return o.certConfig
	}
	// A host that was offline for too long may have a new token by now.
	if latest, err := o.latestBootstrap(); err == nil && latest != nil {
		return latest
	}
	return o.certConfig
}

// latestBootstrap returns the current bootstrap kubeconfig; nil if the file does not exist.
func (o *opening) latestBootstrap() (*rest.Config, error) {
	latest := &opening{cfg: o.cfg}
	if err := latest.readBootstrap(); err != nil || latest.bootstrap == nil {
		return nil, err
	}
	o.cfg.Contact.Watch(latest.bootstrap)
	return latest.bootstrap, nil
}

// saveServer saves the address of the API, so that the bootstrap kubeconfig is no longer
// needed.
func (o *opening) saveServer() error {
	server := rest.CopyConfig(o.certConfig)
	if err := rest.LoadTLSFiles(server); err != nil {
		return fmt.Errorf("reading the server's CA: %w", err)
	}
	err := clientcmd.WriteToFile(kubeconfigOf(server, o.store.CurrentPath()), o.serverFile())
	if err != nil {
		return fmt.Errorf("storing the address of the server: %w", err)
	}
	return nil
}
