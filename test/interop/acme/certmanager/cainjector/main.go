// Command cainjector runs cert-manager's cainjector, for tests in which certplane
// takes its place.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	lease := flag.String("lease-namespace", "", "The namespace of cainjector's Lease. Without it, the controllers work at once.")
	metrics := flag.String("metrics-bind-address", "0", "The address of the metrics, 0 for none.")
	flag.Parse()
	ctrl.SetLogger(funcr.New(func(_, line string) { log.Print(line) }, funcr.Options{}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *lease, *metrics); err != nil {
		log.Fatalf("cainjector: %v", err)
	}
}

// run runs the four controllers until ctx ends, with the name, the caches and the
// times of cert-manager's command, which is not part of its module.
func run(ctx context.Context, lease, metrics string) error {
	config, err := ctrl.GetConfig() // of the flag -kubeconfig
	if err != nil {
		return err
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, cmv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		utilruntime.Must(add(kinds))
	}
	times := struct{ lease, renew, retry time.Duration }{60 * time.Second, 40 * time.Second, 15 * time.Second}
	m, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme: kinds, Metrics: server.Options{BindAddress: metrics},
		LeaderElection: lease != "", LeaderElectionNamespace: lease, LeaderElectionID: "cert-manager-cainjector-leader-election",
		LeaderElectionReleaseOnCancel: true, LeaseDuration: &times.lease, RenewDeadline: &times.renew, RetryPeriod: &times.retry,
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	enabled := map[string]bool{
		cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
		cainjector.APIServiceName: true, cainjector.CustomResourceDefinitionName: true,
	}
	options := cainjector.SetupOptions{EnableCertificatesDataSource: true, EnabledReconcilersFor: enabled}
	if err := cainjector.RegisterAllInjectors(ctx, m, options); err != nil {
		return err
	}
	return m.Start(ctx)
}
