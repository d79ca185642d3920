package acme

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/go-logr/logr/funcr"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/test/interop/acme/certmanager"
)

// part is a part of the work on a Certificate.
type part string

// The parts. Each is one controller of certplane, by that name, and some of
// cert-manager.
const (
	issuers      part = "issuers"
	certificates part = "certificates"
	approval     part = "certificaterequests-approver"
	requests     part = "certificaterequests"
	orders       part = "orders"
	challenges   part = "challenges"
)

// everything is all parts.
var everything = []part{issuers, certificates, approval, requests, orders, challenges}

// all returns everything without some parts.
func all(without ...part) []part {
	return slices.DeleteFunc(slices.Clone(everything), func(p part) bool { return slices.Contains(without, p) })
}

// certManagers are the controllers of cert-manager that do a part.
var certManagers = map[part][]string{
	issuers:      {"issuers", "clusterissuers"},
	certificates: certmanager.Certificates,
	approval:     {"certificaterequests-approver"},
	requests:     {"certificaterequests-issuer-acme"},
	orders:       {"orders"},
	challenges:   {"challenges"},
}

// program is cert-manager or certplane.
type program struct {
	name string
	// run starts the controllers of some parts. stop returns when they have ended.
	run func(w *world, parts ...part) (stop func())
}

var (
	standalone  = program{"certplane serve", runCertplane}
	controllers = program{"certplane controllers", runControllers}
	certManager = program{"cert-manager", runCertManager}
)

// clusterResources is the namespace of the Secrets of ClusterIssuers.
const clusterResources = "kube-system"

// runCertplane restarts the server with the controllers.
func runCertplane(w *world, parts ...part) (stop func()) {
	w.t.Helper()
	w.restart(func(cfg *server.Config) {
		choice := slices.Clone(noCertManager)
		for _, p := range parts {
			choice = append(slices.DeleteFunc(choice, func(name string) bool { return name == "-"+string(p) }), string(p))
		}
		cfg.Controllers = choice
	})
	return func() {
		w.t.Helper()
		w.restart(func(cfg *server.Config) { cfg.Controllers = noCertManager })
	}
}

// noCertManager are all controllers but those of certplane that do the work of
// cert-manager.
var noCertManager = []string{
	"*", "-" + string(issuers), "-" + string(certificates), "-" + string(approval), "-" + string(requests), "-" + string(orders), "-" + string(challenges),
}

// runCertManager runs cert-manager's own controllers as an administrator.
func runCertManager(w *world, parts ...part) (stop func()) {
	w.t.Helper()
	w.served()
	log := funcr.New(func(prefix, line string) {
		if w.t.Context().Err() == nil && testing.Verbose() {
			w.t.Logf("cert-manager: %s %s", prefix, line)
		}
	}, funcr.Options{Verbosity: 2})
	ctx, cancel := context.WithCancel(logs.NewContext(w.t.Context(), log))
	var names []string
	for _, p := range parts {
		names = append(names, certManagers[p]...)
	}
	wait, err := certmanager.Start(ctx, controller.ContextOptions{
		Kubeconfig: w.frontOf(), KubernetesAPIQPS: 1000, KubernetesAPIBurst: 1000,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: clusterResources},
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverImage: "solver", ACMEHTTP01SolverRunAsNonRoot: true,
			DNS01Nameservers: []string{w.resolver}, DNS01CheckRetryPeriod: time.Second,
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 60},
	}, names...)
	if err != nil {
		w.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := wait(); err != nil {
			w.t.Errorf("a controller of cert-manager ended: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// served waits until the API has all kinds. cert-manager's informers are slow to
// notice a kind that comes later.
func (w *world) served() {
	w.t.Helper()
	for _, list := range []client.ObjectList{
		&cmv1.IssuerList{}, &cmv1.ClusterIssuerList{}, &cmv1.CertificateList{}, &cmv1.CertificateRequestList{},
		&acmev1.OrderList{}, &acmev1.ChallengeList{}, &networkingv1.IngressList{},
	} {
		eventually(w.t, "the API has all kinds", func() bool { return w.admin.List(w.t.Context(), list) == nil })
	}
}

// restart restarts the server with another configuration.
func (w *world) restart(edit func(*server.Config)) {
	w.t.Helper()
	edit(&w.Config)
	w.Restart(w.t)
	w.connect()
}

// ingresses are the kinds that cert-manager's controller of challenges also watches, and
// that certplane does not serve.
const ingresses = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ingresses.networking.k8s.io
  annotations:
    api-approved.kubernetes.io: https://github.com/kubernetes/kubernetes
spec:
  group: networking.k8s.io
  scope: Namespaced
  names: {kind: Ingress, listKind: IngressList, plural: ingresses, singular: ingress}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
