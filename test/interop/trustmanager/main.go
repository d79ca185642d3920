// Command trustmanager runs trust-manager, for tests in which certplane takes its place.
// The command of trust-manager holds its Lease only in a pod.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	trustapi "github.com/cert-manager/trust-manager/pkg/apis/trust/v1alpha1"
	"github.com/cert-manager/trust-manager/pkg/bundle"
	"github.com/cert-manager/trust-manager/pkg/bundle/controller"
	"github.com/cert-manager/trust-manager/pkg/webhook"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	lease := flag.String("lease-namespace", "", "The namespace of trust-manager's Lease. Without it, the controller works at once.")
	metrics := flag.String("metrics-bind-address", "0", "The address of the metrics, 0 for none.")
	var options controller.Options
	flag.StringVar(&options.Namespace, "trust-namespace", "cert-manager", "The namespace of the sources.")
	flag.StringVar(&options.DefaultPackageLocation, "default-package-location", "", "A file with the default CAs.")
	flag.BoolVar(&options.SecretTargetsEnabled, "secret-targets-enabled", false, "Whether Secrets can be targets.")
	port := flag.Int("webhook-port", 0, "The port of the webhook. Without it, there is none.")
	certificates := flag.String("webhook-certificate-dir", "", "The folder with tls.crt and tls.key of the webhook.")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *lease, *metrics, crwebhook.Options{Port: *port, CertDir: *certificates}, options); err != nil {
		log.Fatalf("trust-manager: %v", err)
	}
}

// run runs the controller until ctx ends. The client has the default times of the
// Lease, as in trust-manager.
func run(ctx context.Context, lease, metrics string, hook crwebhook.Options, options controller.Options) error {
	config, err := ctrl.GetConfig() // of the flag -kubeconfig
	if err != nil {
		return err
	}
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	utilruntime.Must(trustapi.AddToScheme(kinds))
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: kinds, Metrics: server.Options{BindAddress: metrics}, Cache: bundle.CacheOpts(options), WebhookServer: crwebhook.NewServer(hook),
		LeaderElection: lease != "", LeaderElectionNamespace: lease, LeaderElectionID: "trust-manager-leader-election", LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	if err := bundle.SetupWithManager(ctx, m, options); err != nil {
		return err
	}
	if hook.Port != 0 {
		if err := webhook.SetupWebhookWithManager(m); err != nil {
			return err
		}
	}
	return m.Start(ctx)
}
