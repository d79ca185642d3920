package interop

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// deployedCertManager is what cert-manager's chart deploys.
const deployedCertManager = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cert-manager
  namespace: cert-manager
  labels: {app.kubernetes.io/name: cert-manager, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: controller, app.kubernetes.io/version: v1.21.2}
spec:
  replicas: 1
  selector: {matchLabels: {app.kubernetes.io/component: controller}}
  template:
    metadata: {labels: {app.kubernetes.io/component: controller}}
    spec:
      serviceAccountName: cert-manager
      containers:
      - name: cert-manager-controller
        image: quay.io/jetstack/cert-manager-controller:v1.21.2
        args:
        - --v=2
        - --cluster-resource-namespace=kube-system
        - --leader-election-namespace=kube-system
        - --enable-gateway-api
        - --enable-gateway-api-listenerset
        - --feature-gates=ListenerSets=true
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cert-manager-cainjector
  namespace: cert-manager
  labels: {app.kubernetes.io/name: cainjector, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: cainjector, app.kubernetes.io/version: v1.21.2}
spec:
  replicas: 1
  selector: {matchLabels: {app.kubernetes.io/component: cainjector}}
  template:
    metadata: {labels: {app.kubernetes.io/component: cainjector}}
    spec:
      serviceAccountName: cert-manager-cainjector
      containers:
      - {name: cert-manager-cainjector, image: "quay.io/jetstack/cert-manager-cainjector:v1.21.2", args: [--v=2, --leader-election-namespace=kube-system]}
`

// pods are the processes that run for Deployments, in place of a controller of Deployments and of
// nodes. One process stands for all replicas.
type pods struct {
	d       *dropIn
	start   map[string]func() *process // by namespace/name of the Deployment
	running map[string]*process
}

// reconcile runs what the Deployments request, and tells their status.
func (p *pods) reconcile(t *testing.T) {
	t.Helper()
	present := map[string]bool{}
	for _, item := range p.d.do(t, call{method: http.MethodGet, path: "/apis/apps/v1/deployments"}).object(t)["items"].([]any) {
		deployment := item.(map[string]any)
		metadata := deployment["metadata"].(map[string]any)
		key := fmt.Sprintf("%s/%s", metadata["namespace"], metadata["name"])
		replicas, _ := deployment["spec"].(map[string]any)["replicas"].(float64)
		if present[key] = replicas > 0; present[key] && p.running[key] == nil {
			p.running[key] = p.start[key]()
		} else if !present[key] {
			p.end(t, key)
		}
		status := map[string]any{"observedGeneration": metadata["generation"]}
		for _, count := range []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"} {
			if replicas > 0 {
				status[count] = replicas
			}
		}
		if reflect.DeepEqual(deployment["status"], status) {
			continue
		}
		path := fmt.Sprintf("/apis/apps/v1/namespaces/%s/deployments/%s/status", metadata["namespace"], metadata["name"])
		deployment["status"] = status
		if set := p.d.do(t, call{method: http.MethodPut, path: path, body: deployment}); set.Code != http.StatusOK && set.Code != http.StatusConflict && set.Code != http.StatusNotFound {
			t.Errorf("%+v", set)
		}
	}
	for key := range p.running {
		if !present[key] {
			p.end(t, key)
		}
	}
}

func (p *pods) end(t *testing.T, key string) {
	t.Helper()
	if running := p.running[key]; running != nil {
		stop(t, running)
		delete(p.running, key)
	}
}

// while runs what the Deployments request until a program ends, or until done.
func (p *pods) while(t *testing.T, program *process, done func() bool) {
	t.Helper()
	eventually(t, "the program has ended", func() bool {
		p.reconcile(t)
		select {
		case <-program.ended:
			return true
		default:
			return done != nil && done()
		}
	})
}

// startOwn starts certplane as its Deployment does, and leads its Service there.
func (p *pods) startOwn(t *testing.T) *process {
	t.Helper()
	d := p.d
	eventually(t, "the rights are known", func() bool {
		return d.may(t, "certplane-controllers", "create", "serviceaccounts/token", "cert-manager-issuers")
	})
	d.own = d.kubeconfig(t, "own", map[string]any{"token": d.token(t, "certplane-controllers")})
	config := d.do(t, call{method: http.MethodGet, path: "/api/v1/namespaces/certplane-system/configmaps/certplane-controllers"}).object(t)["data"].(map[string]any)["config.yaml"].(string)
	write(t, d.config, config)
	_, port := splitAddress(t, d.webhook)
	r := d.controllers(t, "--config", d.config, "--webhook-bind-address", "0.0.0.0:"+port)
	service := d.do(t, call{method: http.MethodGet, path: "/api/v1/namespaces/certplane-system/services/certplane-webhook"}).object(t)
	name, _ := service["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["name"].(string)
	d.apply(t, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: certplane-webhook, namespace: certplane-system, labels: {kubernetes.io/service-name: certplane-webhook}}
addressType: IPv4
ports: [{name: %q, port: %s, protocol: TCP}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`, name, port, hostAddress(t)))
	return r.process
}

// hostAddress returns an address of this host that endpoints may have: not the one of loopback.
func hostAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("skipped: this host has only loopback addresses, and endpoints must have another one")
	return ""
}

// adopt starts "certplane adopt cert-manager".
func (d *dropIn) adopt(t *testing.T, args ...string) *process {
	t.Helper()
	return run(t, d.dir, d.program, append([]string{"adopt", "cert-manager", "--kubeconfig", d.admin}, args...)...)
}

// succeeded returns the output of a program that must have ended without an error.
func (p *process) succeeded(t *testing.T) string {
	t.Helper()
	<-p.ended
	output := p.output.tail(1 << 20)
	if p.err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(p.command.Args, " "), p.err, output)
	}
	return output
}

// certplane adopt moves a cluster from cert-manager to certplane and back. It is killed on its way
// and goes on. Nothing is issued, nothing that users have is written, and nothing that they apply
// meanwhile is refused.
func TestDropInAdopt(t *testing.T) {
	d := startDropIn(t, "", "--enable-aggregator-routing=true")
	elect := []string{"-lease-namespace", "kube-system"}
	p := &pods{d: d, running: map[string]*process{}}
	p.start = map[string]func() *process{
		"cert-manager/cert-manager":              func() *process { return d.certManager(t, elect...) },
		"cert-manager/cert-manager-cainjector":   func() *process { return d.cainjector(t, elect...) },
		"certplane-system/certplane-controllers": func() *process { return p.startOwn(t) },
	}
	kinds := slices.Concat(shimKinds, injectedKinds)
	// In a cluster, kube-controller-manager writes this.
	d.kubectl(t, "create", "configmap", "-n", "kube-system", "kube-root-ca.crt", "--from-file=ca.crt="+filepath.Join(d.dir, "peer/apiserver.crt"))
	users := fleet{ingresses: 20, gateways: 5, listenerSets: 2, certificates: 20}
	controller := d.startFleet(t, users)
	stop(t, d.startInjected(t), controller)
	d.apply(t, deployedCertManager)
	p.reconcile(t)
	d.leads(t, false)

	folder := filepath.Join(t.TempDir(), "move")
	said := d.adopt(t, "--write", folder).succeeded(t)
	t.Logf("the plan is\n%s", said)

	probe, stopProbe := d.startGitOps(t, users.objects())
	d.begin(t, "certplane")
	before := d.state(t, kinds...)
	step := func(number string) *process {
		return d.adopt(t, "--run", "--step", number, "--yes", "--image", "registry.example.com/certplane:v1")
	}
	began := time.Now()
	for _, number := range []string{"1", "2", "3", "4"} {
		taken := step(number)
		if number == "2" {
			p.while(t, taken, func() bool { return p.running["certplane-system/certplane-controllers"] != nil })
			kill(taken)
			taken = step(number)
		}
		p.while(t, taken, nil)
		taken.succeeded(t)
	}
	t.Logf("four steps took %s", time.Since(began).Round(time.Second))
	d.leads(t, true)
	d.works(t, "certplane")
	d.injects(t, "certplane")
	d.unchanged(t, before)
	d.untouched(t, kinds...)
	d.adopt(t, "--verify", filepath.Join(folder, "before.json")).succeeded(t)

	d.begin(t, "cert-manager")
	before = d.state(t, kinds...)
	back := d.adopt(t, "--back", "--yes", "--image", "registry.example.com/certplane:v1")
	p.while(t, back, nil)
	t.Logf("the way back says\n%s", back.succeeded(t))
	d.leads(t, false)
	d.works(t, "cert-manager")
	d.injects(t, "cert-manager")
	d.unchanged(t, before)
	if p.running["certplane-system/certplane-controllers"] != nil {
		t.Error("certplane still runs")
	}
	stopProbe()
	t.Logf("users applied their manifests %d times", probe.rounds.Load())
	if n := probe.refused.Load(); n > 0 {
		t.Errorf("%d times the API refused them, the first time because of\n%s", n, *probe.refusal.Load())
	}
}
