// Command external-issuer is a small issuer for cert-manager.io's API, as a
// template for your own.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/examples/external-issuer/api/v1alpha1"
	"github.com/certplane/certplane/issuer"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "external-issuer: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	// controller-runtime adds --kubeconfig; in a pod it is not needed.
	namespace := flag.String("namespace", "sample-issuer", "namespace of the lease")
	secrets := flag.String("cluster-secret-namespace", "sample-issuer", "namespace of the Secrets that SampleClusterIssuers name")
	elect := flag.Bool("leader-elect", true, "let one of several processes work at a time")
	metrics := flag.String("metrics-bind-address", "0", "address of /metrics, HOST:PORT, without TLS to anybody; 0 serves none")
	probes := flag.String("health-probe-bind-address", "0", "address of /healthz and /readyz, HOST:PORT; 0 serves none")
	flag.Parse()
	ctrl.SetLogger(klog.Background())

	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	// Secrets are read when they are needed. With the manager's client, every
	// Secret of the cluster would be in the memory of this process.
	api, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	sample := signer{secrets: api, clusterNamespace: *secrets}
	controller := issuer.Controller{
		Name:        "sample-issuer.example.com",
		Kinds:       []issuer.Issuer{&v1alpha1.SampleIssuer{}, &v1alpha1.SampleClusterIssuer{}},
		AddToScheme: v1alpha1.AddToScheme,
		Check:       sample.check,
		Sign:        sample.sign,
	}
	return issuer.Run(ctrl.SetupSignalHandler(), config, controller, ctrl.Options{
		LeaderElection:          *elect,
		LeaderElectionNamespace: *namespace,
		Metrics:                 metricsserver.Options{BindAddress: *metrics},
		HealthProbeBindAddress:  *probes,
	})
}
