package acme

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/acmesolver"
	"github.com/certplane/certplane/internal/run/cluster"
)

// publicWeb answers at all public names, for clients that honour HTTP_PROXY.
var publicWeb atomic.Pointer[http.Handler]

// startPublicWeb makes publicWeb the proxy of the process, before anything looks
// for one, until stop is called. Names of this host are never asked through it.
func startPublicWeb() (stop func()) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := publicWeb.Load(); handler != nil {
			(*handler).ServeHTTP(w, r)
			return
		}
		http.Error(w, "no cluster", http.StatusBadGateway)
	}))
	os.Setenv("HTTP_PROXY", proxy.URL)
	return proxy.Close
}

// nodes stand in for the nodes of a cluster and its Ingress controller: requests
// are answered by what the pods behind the Ingresses would run.
type nodes struct {
	w *world
	// closed keeps everybody out.
	closed atomic.Bool
}

// startNodes serves the cluster's public names, at the port that the ACME server
// asks and for self checks, until the test ends.
func startNodes(w *world) *nodes {
	n := &nodes{w: w}
	listener, err := net.Listen("tcp", loopback(w.httpPort))
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(n)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	w.t.Cleanup(server.Close)
	var handler http.Handler = n
	publicWeb.Store(&handler)
	w.t.Cleanup(func() { publicWeb.Store(nil) })
	return n
}

func (n *nodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n.closed.Load() {
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	pod, err := n.route(r.Context(), host, r.URL.Path)
	if err != nil || pod == nil {
		http.NotFound(w, r)
		return
	}
	args := map[string]string{}
	for _, arg := range pod.Spec.Containers[0].Args {
		name, value, _ := strings.Cut(arg, "=")
		args[name] = value
	}
	acmesolver.Handler(acmesolver.Challenge{Domain: args["--domain"], Token: args["--token"], Key: args["--key"]}).ServeHTTP(w, r)
}

// route follows an Ingress and its Service to a pod.
func (n *nodes) route(ctx context.Context, host, path string) (*corev1.Pod, error) {
	var ingresses networkingv1.IngressList
	if err := n.w.admin.List(ctx, &ingresses); err != nil {
		return nil, err
	}
	for _, ingress := range ingresses.Items {
		for _, rule := range ingress.Spec.Rules {
			if rule.Host != host || rule.HTTP == nil {
				continue
			}
			for _, to := range rule.HTTP.Paths {
				if to.Path == path {
					return n.behind(ctx, ingress.Namespace, to.Backend.Service.Name)
				}
			}
		}
	}
	return nil, nil
}

// behind returns a pod that a Service selects.
func (n *nodes) behind(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	var service corev1.Service
	if err := n.w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &service); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	err := n.w.admin.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(service.Spec.Selector))
	if err != nil || len(pods.Items) == 0 {
		return nil, err
	}
	return &pods.Items[0], nil
}

// frontOf returns a kubeconfig for the API behind a front that accepts Ingresses
// in protobuf, as the API of a cluster does. Here they are custom resources,
// which are JSON.
func (w *world) frontOf() (kubeconfig string) {
	w.t.Helper()
	transport, err := rest.TransportFor(w.Admin(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	target, err := url.Parse(w.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	front := httptest.NewTLSServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if strings.Contains(r.In.URL.Path, "/ingresses") {
				asJSON(r.Out)
			}
		},
	})
	w.t.Cleanup(front.Close)
	kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: front.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}),
		}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, kubeconfig); err != nil {
		w.t.Fatal(err)
	}
	return kubeconfig
}

// asJSON makes a request about Ingresses one for JSON.
func asJSON(r *http.Request) {
	r.Header.Set("Accept", runtime.ContentTypeJSON)
	if r.Header.Get("Content-Type") != runtime.ContentTypeProtobuf || r.Method != http.MethodPost {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the request fails
	}
	ingress, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
	if err != nil {
		return
	}
	if body, err = runtime.Encode(scheme.Codecs.LegacyCodec(networkingv1.SchemeGroupVersion), ingress); err != nil {
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Type", runtime.ContentTypeJSON)
}

// runControllers runs "certplane controllers" for some parts.
func runControllers(w *world, parts ...part) (stop func()) {
	w.t.Helper()
	cfg := cluster.DefaultConfig()
	cfg.ACME.AllowLoopback = true // the servers of tests listen there
	cfg.ClientConnection.Kubeconfig, cfg.UseServiceAccountCredentials = w.frontOf(), false
	cfg.LeaderElection.LeaderElect = false
	cfg.Metrics.BindAddress, cfg.Health.BindAddress, cfg.Webhook.Serve = "0", loopback(freePort(w.t)), "Never"
	cfg.CertManager.ClusterResourceNamespace = clusterResources
	cfg.Controllers = nil
	for _, p := range parts {
		cfg.Controllers = append(cfg.Controllers, string(p))
	}
	cfg.ACME.HTTP01.Cluster.SolverImage = "solver"
	cfg.ACME.DNS01 = w.Config.ACME.DNS01
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cluster.Run(ctx, cfg) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			w.t.Errorf("certplane controllers: %v", err)
		}
	}
	w.t.Cleanup(stop)
	return stop
}
