package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/process/account"
	"github.com/certplane/certplane/internal/process/worker"
)

// apiTimeout is how long the API may take for one answer while a process starts.
const apiTimeout = 10 * time.Second

// connect returns the configuration with which this process reaches the API.
func connect(c ClientConnection) (*rest.Config, error) {
	cfg, err := load(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "certplane/controllers"
	cfg.QPS, cfg.Burst = c.QPS, c.Burst
	if c.QPS == 0 {
		cfg.QPS = -1 // client-go's value for no limit
	}
	return cfg, nil
}

func load(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no API is configured: name a kubeconfig file with --kubeconfig, or run in a pod")
		}
		return cfg, err
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	return cfg, nil
}

// waitForAPI waits for an API server that starts at the same time, or is away. Only one
// that does not accept the credentials is an error.
func waitForAPI(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	passes := func(err error) bool { return !apierrors.IsUnauthorized(err) }
	err = worker.Patiently(ctx, "the API at "+cfg.Host, passes, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
		if apierrors.IsForbidden(err) {
			return nil
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("reaching the API at %s: %w", cfg.Host, err)
	}
	return err
}

// identities returns the function that returns the configuration of each
// account.
func identities(ctx context.Context, cfg Config, own *rest.Config) (func(string) (*rest.Config, error), error) {
	if !cfg.UseServiceAccountCredentials {
		return func(name string) (*rest.Config, error) {
			as := rest.CopyConfig(own)
			as.UserAgent = "certplane/" + name
			return as, nil
		}, nil
	}
	accounts, err := account.New(account.Config{Client: own, Namespace: cfg.Namespace})
	if err != nil {
		return nil, err
	}
	return func(name string) (*rest.Config, error) {
		as, err := accounts.As(ctx, name)
		var missing *account.MissingError
		if errors.As(err, &missing) || apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("%w: apply the output of 'certplane manifests', or let all controllers act as the "+
				"kubeconfig's user with --use-service-account-credentials=false", err)
		}
		return as, err
	}, nil
}

// podCAFile is the file in pods with the contents of the publisher's config
// map.
const podCAFile = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// rootCA returns the root of the API server's certificate, as far as cfg
// contains it. A pod's own CA file does not count: once published, it would
// never change again.
func rootCA(cfg *rest.Config) (roots.Roots, error) {
	if cfg.CAFile == podCAFile && len(cfg.CAData) == 0 {
		return nil, nil
	}
	return roots.OfAPI(cfg)
}
