package interop

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cert-manager-webhook
  namespace: cert-manager
  labels: {app.kubernetes.io/name: webhook, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: webhook, app.kubernetes.io/version: v1.21.2}
spec:
  replicas: 1
  selector: {matchLabels: {app.kubernetes.io/component: webhook}}
  template:
    metadata: {labels: {app.kubernetes.io/component: webhook}}
    spec:
      serviceAccountName: cert-manager-webhook
      containers:
      - name: cert-manager-webhook
        image: quay.io/jetstack/cert-manager-webhook:v1.21.2
        args:
        - --v=2
        - --secure-port=10250
        - --dynamic-serving-ca-secret-namespace=$(POD_NAMESPACE)
        - --dynamic-serving-ca-secret-name=cert-manager-webhook-ca
        - --dynamic-serving-dns-names=cert-manager-webhook
        - --dynamic-serving-dns-names=cert-manager-webhook.$(POD_NAMESPACE)
        - --dynamic-serving-dns-names=cert-manager-webhook.$(POD_NAMESPACE).svc
---
apiVersion: v1
kind: Service
metadata:
  name: cert-manager-webhook
  namespace: cert-manager
  labels: {app.kubernetes.io/name: webhook, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: webhook}
spec:
  ports: [{name: https, port: 443, protocol: TCP, targetPort: https}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: cert-manager-webhook
  labels: {app.kubernetes.io/name: webhook, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: webhook}
  annotations: {cert-manager.io/inject-ca-from-secret: cert-manager/cert-manager-webhook-ca}
webhooks:
- name: webhook.cert-manager.io
  clientConfig: {service: {namespace: cert-manager, name: cert-manager-webhook, path: /mutate}}
  rules: [{apiGroups: [cert-manager.io], apiVersions: [v1], operations: [CREATE], resources: [certificaterequests]}]
  timeoutSeconds: 30
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: cert-manager-webhook
  labels: {app.kubernetes.io/name: webhook, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: webhook}
  annotations: {cert-manager.io/inject-ca-from-secret: cert-manager/cert-manager-webhook-ca}
webhooks:
- name: webhook.cert-manager.io
  clientConfig: {service: {namespace: cert-manager, name: cert-manager-webhook, path: /validate}}
  rules: [{apiGroups: [cert-manager.io, acme.cert-manager.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ['*/*']}]
  timeoutSeconds: 30
  sideEffects: None
  admissionReviewVersions: [v1]
`

// webhookOfCertManager starts cert-manager's webhook as its Deployment does, and leads its Service
// there.
func (d *dropIn) webhookOfCertManager(t *testing.T) *process {
	t.Helper()
	_, port := splitAddress(t, freeAddress(t))
	health := freeAddress(t)
	_, healthPort := splitAddress(t, health)
	p := d.incumbent(t, "cert-manager-webhook", "cert-manager-webhook", "--secure-port", port, "--healthz-port", healthPort, "--metrics-listen-address", "0",
		"--dynamic-serving-ca-secret-namespace", "cert-manager", "--dynamic-serving-ca-secret-name", "cert-manager-webhook-ca",
		"--dynamic-serving-dns-names", "cert-manager-webhook.cert-manager.svc")
	eventually(t, "cert-manager's webhook is ready", func() bool { return answers(health, "/livez") })
	d.serveAt(t, "cert-manager", "cert-manager-webhook", port)
	return p
}

// serveAt leads a Service to a port of this host.
func (d *dropIn) serveAt(t *testing.T, namespace, service, port string) {
	t.Helper()
	found := d.do(t, call{method: http.MethodGet, path: "/api/v1/namespaces/" + namespace + "/services/" + service}).object(t)
	name, _ := found["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["name"].(string)
	d.apply(t, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: %[2]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: %[3]q, port: %[4]s, protocol: TCP}]
endpoints: [{addresses: [%[5]s], conditions: {ready: true}}]
`, service, namespace, name, port, hostAddress(t)))
}

// admissionProbe asks the API 20 times a second whether it admits a good and a bad
// CertificateRequest, without storing them.
type admissionProbe struct {
	asked, wrong atomic.Int64
	first        atomic.Pointer[string] // the first wrong answer
}

// startAdmissionProbe asks until stop is called.
func (d *dropIn) startAdmissionProbe(t *testing.T) (probe *admissionProbe, stop func()) {
	t.Helper()
	good, bad := newCertificateRequest(t, "probe", "ca"), newCertificateRequest(t, "probe", "ca")
	bad["spec"].(map[string]any)["request"] = base64.StdEncoding.EncodeToString([]byte("not a request"))
	probe = &admissionProbe{}
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	const clients = 4
	for range clients {
		asking.Go(func() {
			for tick := time.NewTicker(clients * time.Second / 20); ; {
				for object, admitted := range map[*map[string]any]bool{&good: true, &bad: false} {
					if wrong := d.wrongAdmission(t, *object, admitted); wrong != "" {
						probe.wrong.Add(1)
						probe.first.CompareAndSwap(nil, &wrong)
					}
				}
				probe.asked.Add(1)
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	stop = func() {
		cancel()
		asking.Wait()
	}
	t.Cleanup(stop)
	return probe, stop
}

// wrongAdmission sends a CertificateRequest that the webhook must admit, and complete, or refuse. It
// returns what is wrong with the answer.
func (d *dropIn) wrongAdmission(t *testing.T, object map[string]any, admitted bool) string {
	response, err := d.client.Do(d.request(t, call{method: http.MethodPost, path: requestsPath + "?dryRun=All", body: object}))
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	text := string(body)
	switch {
	case err != nil:
		return err.Error()
	case admitted && response.StatusCode == http.StatusCreated && strings.Contains(text, `"username":"`): // the webhook sets it
		return ""
	case !admitted && response.StatusCode < 500 && strings.Contains(text, `admission webhook \"webhook.cert-manager.io\" denied the request: `):
		return ""
	}
	return fmt.Sprintf("%d %s", response.StatusCode, text)
}

// pods are the processes that run for Deployments, in place of a controller of Deployments and of
// nodes. One process stands for all replicas.
type pods struct {
	d       *dropIn
	start   map[string]func() *process // by namespace/name of the Deployment
	ending  map[string]func()          // called before the process ends
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
		if before := p.ending[key]; before != nil {
			before()
		}
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
	d.serveAt(t, "certplane-system", "certplane-webhook", port)
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

// adopt starts "certplane adopt" for a program.
func (d *dropIn) adopt(t *testing.T, program string, args ...string) *process {
	t.Helper()
	return run(t, d.dir, d.program, append([]string{"adopt", program, "--kubeconfig", d.admin}, args...)...)
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

// shell starts a command line, in which certplane is the program under test.
func (d *dropIn) shell(t *testing.T, line string) *process {
	t.Helper()
	return run(t, d.dir, "sh", "-c", "export PATH="+filepath.Dir(d.program)+":$PATH; "+line)
}

// uninstall runs, once, the command that step 7 has printed.
func (p *process) uninstall(t *testing.T, d *dropIn, done *bool) {
	t.Helper()
	_, line, _ := strings.Cut(p.output.tail(1<<20), "Run in another terminal:\n")
	if line, _, printed := strings.Cut(line, "\n"); printed && !*done {
		*done = true
		d.shell(t, strings.TrimSpace(line)).succeeded(t)
	}
}

// asImage are the flags of a move without questions.
var asImage = []string{"--yes", "--image", "registry.example.com/certplane:v1"}

// allSteps takes all steps, and is killed at the beginning of each one after the first.
func (p *pods) allSteps(t *testing.T, program string) {
	t.Helper()
	uninstalled := false
	for step := 1; ; step++ {
		taken := p.d.adopt(t, program, append([]string{"--run", "--watch", "1s"}, asImage...)...)
		p.while(t, taken, func() bool {
			taken.uninstall(t, p.d, &uninstalled)
			return step < 7 && strings.Contains(taken.output.tail(1<<20), fmt.Sprintf("Step %d: done", step))
		})
		if step == 7 {
			taken.succeeded(t)
			return
		}
		kill(taken)
		if said := taken.output.tail(1 << 20); !strings.Contains(said, fmt.Sprintf("Step %d: done", step)) {
			t.Fatalf("step %d was not taken:\n%s", step, said)
		}
	}
}

// byHand runs the commands of steps.md.
func (p *pods) byHand(t *testing.T, folder string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(folder, "steps.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`(certplane [^`]+)`").FindAllStringSubmatch(string(page), -1)
	if len(commands) < 10 {
		t.Errorf("there are only %d commands in\n%s", len(commands), page)
	}
	for _, command := range commands {
		if line := command[1]; !strings.HasSuffix(line, "--run") && !strings.HasSuffix(line, "--back") {
			taken := p.d.shell(t, "cd "+folder+" && "+line)
			p.while(t, taken, nil)
			taken.succeeded(t)
		}
	}
}

// back takes all steps back.
func (p *pods) back(t *testing.T, program string) {
	t.Helper()
	back := p.d.adopt(t, program, append([]string{"--back"}, asImage...)...)
	p.while(t, back, nil)
	t.Logf("the way back says\n%s", back.succeeded(t))
	if p.running["certplane-system/certplane-controllers"] != nil {
		t.Error("certplane still runs")
	}
}

// issuedOnce fails the test unless each Certificate was issued once.
func (d *dropIn) issuedOnce(t *testing.T) {
	t.Helper()
	certificates := d.list(t, "certificates")
	for name, object := range certificates {
		if revision := object["status"].(map[string]any)["revision"]; revision != 1.0 {
			t.Errorf("%s has the revision %v", name, revision)
		}
	}
	if n := d.issuances(t); n != len(certificates) {
		t.Errorf("there are %d CertificateRequests for %d Certificates", n, len(certificates))
	}
}

// certplane adopt moves a cluster from cert-manager to certplane and back, before step 6 and after
// step 7. It is killed on its way and goes on. Certificates that cert-manager has begun are issued
// once. Nothing else is issued, nothing that users have is written, nothing that they apply
// meanwhile is refused, and a webhook validates at every moment.
func TestDropInAdopt(t *testing.T) {
	peer(t, "cert-manager-webhook")
	d := startDropIn(t, "", "--enable-aggregator-routing=true")
	elect := []string{"-lease-namespace", "kube-system"}
	const controllerOfCertManager, webhookOfCertManager = "cert-manager/cert-manager", "cert-manager/cert-manager-webhook"
	p := &pods{d: d, running: map[string]*process{}, ending: map[string]func(){}}
	p.start = map[string]func() *process{
		controllerOfCertManager:                  func() *process { return d.certManager(t, elect...) },
		"cert-manager/cert-manager-cainjector":   func() *process { return d.cainjector(t, elect...) },
		webhookOfCertManager:                     func() *process { return d.webhookOfCertManager(t) },
		"certplane-system/certplane-controllers": func() *process { return p.startOwn(t) },
	}
	kinds := slices.Concat(shimKinds, injectedKinds)
	// In a cluster, kube-controller-manager writes this.
	d.kubectl(t, "create", "configmap", "-n", "kube-system", "kube-root-ca.crt", "--from-file=ca.crt="+filepath.Join(d.dir, "peer/apiserver.crt"))
	users := fleet{ingresses: 20, gateways: 5, listenerSets: 2, certificates: 20}
	controller := d.startFleet(t, users)
	stop(t, d.startInjected(t), controller)
	install := func() {
		// While its webhook starts, objects cannot be written, as in each installation of cert-manager.
		d.apply(t, deployedCertManager)
		p.reconcile(t)
		eventually(t, "the webhook of cert-manager validates", func() bool {
			return d.wrongAdmission(t, newCertificateRequest(t, "probe", "ca"), true) == ""
		})
	}
	install()
	d.leads(t, false)

	folder := filepath.Join(t.TempDir(), "move")
	said := d.adopt(t, "cert-manager", "--write", folder).succeeded(t)
	t.Logf("the plan is\n%s", said)

	began := time.Now()
	// admits starts users and a probe, and returns a function that ends them and judges the answers.
	admits := func() (end func()) {
		applied, stopUsers := d.startGitOps(t, users.objects())
		probe, stopProbe := d.startAdmissionProbe(t)
		started := time.Now()
		return func() {
			t.Helper()
			stopUsers()
			stopProbe()
			t.Logf("in %s, users applied their manifests %d times, and %d times a good and a bad request was sent", time.Since(started).Round(time.Second), applied.rounds.Load(), probe.asked.Load())
			if n := applied.refused.Load(); n > 0 {
				t.Errorf("%d times the API refused them, the first time because of\n%s", n, *applied.refusal.Load())
			}
			if n := probe.wrong.Load(); n > 0 {
				t.Errorf("%d times the API gave a wrong answer, first\n%s", n, *probe.first.Load())
			}
		}
	}
	end := admits()
	works := func(who string, before map[string]objects) {
		d.works(t, who)
		d.injects(t, who)
		d.unchanged(t, before)
	}

	d.begin(t, "certplane")
	before := d.state(t, kinds...)
	half := 0
	p.ending[controllerOfCertManager] = func() {
		made := fleet{certificates: 30}.objects()
		for i, object := range made {
			name := fmt.Sprintf("%s-half-%d", newcomer(d.who), i)
			object["metadata"].(map[string]any)["name"], object["spec"].(map[string]any)["secretName"] = name, name
		}
		ready := d.ready(t)
		d.createAll(t, made...)
		eventually(t, "cert-manager has begun them", func() bool { return d.ready(t) > ready })
		half = ready + len(made) - d.ready(t)
	}
	for _, number := range []string{"1", "2", "3", "4", "5"} {
		step := func() *process {
			return d.adopt(t, "cert-manager", append([]string{"--run", "--watch", "1s", "--step", number}, asImage...)...)
		}
		taken := step()
		if number == "2" {
			p.while(t, taken, func() bool { return p.running["certplane-system/certplane-controllers"] != nil })
			kill(taken)
			taken = step()
		}
		p.while(t, taken, nil)
		taken.succeeded(t)
	}
	delete(p.ending, controllerOfCertManager)
	t.Logf("five steps took %s; cert-manager had begun %d Certificates", time.Since(began).Round(time.Second), half)
	d.leads(t, true)
	certificates := len(d.list(t, "certificates"))
	eventually(t, "certplane has issued what cert-manager had begun", func() bool { return d.ready(t) == certificates })
	works("certplane", before)
	d.untouched(t, kinds...)
	d.issuedOnce(t)
	d.adopt(t, "cert-manager", "--verify", filepath.Join(folder, "before.json")).succeeded(t)

	d.begin(t, "back")
	before = d.state(t, kinds...)
	p.back(t, "cert-manager")
	d.leads(t, false)
	works("back", before)
	end()
	end = admits()

	d.begin(t, "again")
	before = d.state(t, kinds...)
	p.allSteps(t, "cert-manager")
	d.leads(t, true)
	works("again", before)
	d.untouched(t, kinds...)
	for key := range p.running {
		if strings.HasPrefix(key, "cert-manager/") {
			t.Errorf("%s still runs", key)
		}
	}

	end()

	install()
	d.leads(t, true)
	end = admits()
	d.begin(t, "installed")
	before = d.state(t, kinds...)
	p.back(t, "cert-manager")
	d.leads(t, false)
	works("installed", before)
	d.issuedOnce(t)
	end()
	t.Logf("all moves took %s", time.Since(began).Round(time.Second))

	// A step 6 in the other order would be noticed.
	probe, stopProbe := d.startAdmissionProbe(t)
	const webhook = "/apis/apps/v1/namespaces/cert-manager/deployments/cert-manager-webhook"
	scale := func(replicas int) {
		d.do(t, call{method: http.MethodPatch, path: webhook, contentType: "application/merge-patch+json", body: map[string]any{"spec": map[string]any{"replicas": replicas}}})
		p.reconcile(t)
	}
	scale(0)
	eventually(t, "the API gives wrong answers", func() bool { return probe.wrong.Load() > 0 })
	stopProbe()
	scale(1)
	eventually(t, "the webhook of cert-manager validates again", func() bool {
		return d.wrongAdmission(t, newCertificateRequest(t, "probe", "ca"), true) == ""
	})

	d.begin(t, "by-hand")
	before = d.state(t, kinds...)
	folder = filepath.Join(t.TempDir(), "by-hand")
	d.adopt(t, "cert-manager", "--write", folder).succeeded(t)
	p.byHand(t, folder)
	d.leads(t, true)
	works("by-hand", before)
	d.untouched(t, kinds...)
	d.issuedOnce(t)
}
