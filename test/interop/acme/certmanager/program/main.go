// Command program runs the controllers of cert-manager that issue Certificates of
// CA and SelfSigned issuers, without limits on their client. The benchmark
// measures it beside certplane.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"

	"github.com/certplane/certplane/test/interop/acme/certmanager"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "The API server, as an administrator.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		log.Fatalf("cert-manager: %v", err)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	wait, err := certmanager.Start(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig, KubernetesAPIQPS: 10000, KubernetesAPIBurst: 20000,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "kube-system"},
		// cert-manager's defaults.
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}, append([]string{
		"issuers", "clusterissuers", "certificaterequests-approver", "certificaterequests-issuer-ca", "certificaterequests-issuer-selfsigned",
	}, certmanager.Certificates...)...)
	if err != nil {
		return err
	}
	return wait()
}
