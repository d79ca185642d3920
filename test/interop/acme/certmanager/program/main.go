// Command program runs cert-manager's controllers, without limits on their client:
// for the benchmark, which measures them beside certplane, and for tests in which
// certplane takes their place.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	utilfeature "github.com/cert-manager/cert-manager/pkg/util/feature"

	"github.com/certplane/certplane/test/interop/acme/certmanager"
)

// issuing are the controllers that issue Certificates of CA and SelfSigned issuers.
var issuing = append([]string{
	"issuers", "clusterissuers", "certificaterequests-approver", "certificaterequests-issuer-ca", "certificaterequests-issuer-selfsigned",
}, certmanager.Certificates...)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "The API server.")
	more := flag.String("controllers", "", "Names of controllers in addition to those that issue Certificates of CA and SelfSigned issuers.")
	gateways := flag.Bool("gateway-api", false, "Whether the API has Gateways and ListenerSets.")
	lease := flag.String("lease-namespace", "", "The namespace of cert-manager's Lease. Without it, the controllers work at once.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names := issuing
	if *more != "" {
		names = append(names, strings.Split(*more, ",")...)
	}
	work := func(ctx context.Context) error { return run(ctx, *kubeconfig, *gateways, names) }
	elect := func() error { return lead(ctx, *kubeconfig, *lease, work) }
	if *lease == "" {
		elect = func() error { return work(ctx) }
	}
	if err := elect(); err != nil {
		log.Fatalf("cert-manager: %v", err)
	}
}

// run runs the controllers until ctx ends, with the defaults of cert-manager's flags.
func run(ctx context.Context, kubeconfig string, gateways bool, names []string) error {
	if gateways {
		// The support of ListenerSets is alpha.
		if err := utilfeature.DefaultMutableFeatureGate.Set("ListenerSets=true"); err != nil {
			return fmt.Errorf("enabling ListenerSets: %w", err)
		}
	}
	wait, err := certmanager.Start(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig, KubernetesAPIQPS: 10000, KubernetesAPIBurst: 20000,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "kube-system"},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerKind: "Issuer", DefaultIssuerGroup: "cert-manager.io", DefaultAutoCertificateAnnotations: []string{"kubernetes.io/tls-acme"},
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 60},
		ConfigOptions:    controller.ConfigOptions{EnableGatewayAPI: gateways, EnableGatewayAPIListenerSet: gateways},
	}, names...)
	if err != nil {
		return err
	}
	return wait()
}
