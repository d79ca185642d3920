package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dropIn is a cluster in which certplane takes the place of cert-manager's programs, and
// gives it back. Everything that a client writes there is in a log.
type dropIn struct {
	*cluster
	log     string   // the audit log, one Event of JSON per line
	webhook string   // the address of certplane's webhook
	config  string   // certplane's configuration
	roots   string   // the file with the default CAs of Bundles
	choice  string   // the flag --controllers of certplane
	who     string   // the program that works in the present phase
	began   int64    // how long the log was when the present phase began
	metrics []string // addresses of the metrics of programs that started in the present phase
}

// auditPolicy has the API log all writes.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

// startDropIn starts a cluster with the definitions of cert-manager and of the Gateway API.
// choice are the controllers that certplane will run, without "*".
// args are more flags of kube-apiserver.
func startDropIn(t *testing.T, choice string, args ...string) *dropIn {
	t.Helper()
	files := shortTempDir(t)
	d := &dropIn{
		log: filepath.Join(files, "audit.log"), webhook: freeAddress(t), config: filepath.Join(files, "controllers.yaml"),
		choice: "--controllers=*," + choice,
	}
	policy := filepath.Join(files, "policy.yaml")
	write(t, policy, auditPolicy)
	write(t, d.config, "apiVersion: config.certplane.dev/v1alpha1\nkind: ControllersConfiguration\ncertManager: {clusterResourceNamespace: kube-system}\n")
	d.cluster = newCluster(t, startServers(t, append(args, "--audit-policy-file="+policy, "--audit-log-path="+d.log)...))
	d.applying = []string{"--force-conflicts"} // the definitions are cert-manager's
	d.apply(t, "", "-f", moduleFolder(t, "acme", "github.com/cert-manager/cert-manager")+"/deploy/crds")
	for _, kind := range []string{"gateways", "listenersets"} {
		d.apply(t, "", "-f", moduleFolder(t, "acme", "sigs.k8s.io/gateway-api")+"/config/crd/standard/gateway.networking.k8s.io_"+kind+".yaml")
	}
	d.kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	d.kubectl(t, "create", "namespace", "cert-manager")
	d.kubectl(t, "create", "serviceaccount", "-n", "cert-manager", "default")
	return d
}

// moduleFolder returns the folder of a module that a program is built with, whose own module is
// in a folder here.
func moduleFolder(t *testing.T, program, module string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = program
	folder, err := command.Output()
	if err != nil {
		t.Fatalf("looking for %s: %v", module, err)
	}
	return strings.TrimSpace(string(folder))
}

// apply applies manifests as an administrator who owns what is in them.
func (d *dropIn) apply(t *testing.T, manifests string, args ...string) {
	t.Helper()
	if manifests != "" {
		args = append(args, "-f", "-")
	}
	d.certplane(t, manifests, append([]string{"kubectl", "--kubeconfig", d.admin, "apply", "--server-side", "--force-conflicts", "--field-manager=manifests"}, args...)...)
}

// incumbentAccount is the account of a program that certplane replaces, with the labels that its
// chart gives it. The chart's own rights are smaller.
const incumbentAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: ACCOUNT, namespace: cert-manager, labels: {app.kubernetes.io/name: cert-manager, app.kubernetes.io/instance: cert-manager}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ACCOUNT, labels: {app.kubernetes.io/name: cert-manager, app.kubernetes.io/instance: cert-manager}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: ACCOUNT, namespace: cert-manager}]
`

// incumbent starts a program that certplane replaces, with all rights, as an account of
// its own.
func (d *dropIn) incumbent(t *testing.T, program, account string, args ...string) *process {
	t.Helper()
	path := peer(t, program)
	if !found(t, d.apiServer, "/api/v1/namespaces/cert-manager/serviceaccounts/"+account) {
		d.apply(t, strings.ReplaceAll(incumbentAccount, "ACCOUNT", account))
	}
	token := strings.TrimSpace(d.kubectl(t, "create", "token", "-n", "cert-manager", account, "--duration=10h"))
	return run(t, d.dir, path, append([]string{"--kubeconfig", d.kubeconfig(t, account, map[string]any{"token": token})}, args...)...)
}

// measured starts a program that serves metrics without authorization.
func (d *dropIn) measured(t *testing.T, program, account string, args ...string) *process {
	t.Helper()
	address := freeAddress(t)
	d.metrics = append(d.metrics, address)
	return d.incumbent(t, program, account, append([]string{"-metrics-bind-address", address}, args...)...)
}

// certManager starts cert-manager's controller with its shims.
func (d *dropIn) certManager(t *testing.T, args ...string) *process {
	t.Helper()
	return d.incumbent(t, "cert-manager-controller", "cert-manager", append([]string{"-controllers", "ingress-shim,gateway-shim,listenerset", "-gateway-api"}, args...)...)
}

// takeOver installs certplane's controllers and starts them.
func (d *dropIn) takeOver(t *testing.T, args ...string) *replica {
	t.Helper()
	d.installWithAccount(t, d.choice, "--config", d.config)
	r := d.controllers(t, append([]string{d.choice, "--config", d.config, "--webhook-bind-address", d.webhook}, args...)...)
	eventually(t, "the API knows whom to trust", func() bool { return len(d.bundles(t)) == len(webhookKinds) })
	d.reachWebhook(t, d.webhook)
	eventually(t, "the certificate has the address", func() bool { return serves(t, d.webhook).VerifyHostname("127.0.0.1") == nil })
	return r
}

// giveBack removes the configurations of certplane's webhook, and stops certplane.
func (d *dropIn) giveBack(t *testing.T, r *replica) {
	t.Helper()
	d.deleteWebhooks(t)
	stop(t, r.process)
}

func (d *dropIn) deleteWebhooks(t *testing.T) {
	t.Helper()
	for _, kind := range webhookKinds {
		d.kubectl(t, "delete", kind+"webhookconfigurations", "certplane-webhook.certplane-system")
	}
}

// objects are what a list has, by namespace and name.
type objects map[string]map[string]any

// kindPaths are the paths of lists whose objects a takeover must not change, if they belong to
// users.
var kindPaths = map[string]string{
	"certificates":        "/apis/cert-manager.io/v1/namespaces/default/certificates",
	"certificaterequests": "/apis/cert-manager.io/v1/namespaces/default/certificaterequests",
	"secrets":             "/api/v1/secrets",
	"ingresses":           "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
	"gateways":            "/apis/gateway.networking.k8s.io/v1/namespaces/default/gateways",
	"listenersets":        "/apis/gateway.networking.k8s.io/v1/namespaces/default/listenersets",

	"validatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
	"mutatingwebhookconfigurations":   "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
	"customresourcedefinitions":       "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"apiservices":                     "/apis/apiregistration.k8s.io/v1/apiservices",

	"bundles":    "/apis/trust.cert-manager.io/v1alpha1/bundles",
	"configmaps": "/api/v1/configmaps",
}

func (d *dropIn) list(t *testing.T, kind string) objects {
	t.Helper()
	all := objects{}
	for _, item := range d.do(t, call{method: http.MethodGet, path: kindPaths[kind]}).object(t)["items"].([]any) {
		object := item.(map[string]any)
		metadata := object["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		all[namespace+"/"+metadata["name"].(string)] = object
	}
	return all
}

// newcomer is how the names begin of objects that a test makes to see that a program works.
func newcomer(who string) string { return "new-" + who }

// ofUsers reports whether an object was there before the present phase, and belongs to users.
func (d *dropIn) ofUsers(namespace, name string) bool {
	switch {
	case name == "" || strings.Contains(name, newcomer(d.who)):
		return false
	case namespace == "":
		return strings.Contains(name, "injected-") || strings.HasPrefix(name, "bundle-")
	}
	return namespace == "default" || strings.HasPrefix(namespace, "team-")
}

// state returns what users had of some kinds before the present phase.
func (d *dropIn) state(t *testing.T, kinds ...string) map[string]objects {
	t.Helper()
	state := map[string]objects{}
	for _, kind := range kinds {
		state[kind] = d.list(t, kind)
		maps.DeleteFunc(state[kind], func(key string, _ map[string]any) bool {
			namespace, name, _ := strings.Cut(key, "/")
			return !d.ofUsers(namespace, name)
		})
	}
	return state
}

// unchanged fails the test unless everything is as it was, with the same resource version.
func (d *dropIn) unchanged(t *testing.T, before map[string]objects) {
	t.Helper()
	for kind, was := range before {
		now := d.state(t, kind)[kind]
		if len(now) != len(was) {
			t.Errorf("there are %d %s, there were %d", len(now), kind, len(was))
		}
		changed := 0
		for name, object := range was {
			if version(object) == version(now[name]) {
				continue
			}
			if changed++; changed <= 3 {
				t.Errorf("%s %s has changed\nwas %s\nnow %s", kind, name, shown(kind, object), shown(kind, now[name]))
			}
		}
		if changed > 0 {
			t.Errorf("%d of %d %s have changed", changed, len(was), kind)
		}
	}
}

func version(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	version, _ := metadata["resourceVersion"].(string)
	return uid + "/" + version
}

// shown is an object as a test may show it.
func shown(kind string, object map[string]any) string {
	if kind == "secrets" {
		return fmt.Sprint(object["metadata"])
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// thereAndBack stops cert-manager's programs, has certplane work, and starts them again. In
// neither direction is anything written that users had. works makes a program prove that it
// has worked on everything.
func (d *dropIn) thereAndBack(t *testing.T, kinds []string, works func(who string), programs ...func() *process) {
	t.Helper()
	d.begin(t, "certplane")
	before := d.state(t, kinds...)
	for kind, had := range before {
		if len(had) == 0 {
			t.Fatalf("there are no %s", kind)
		}
	}
	ours := d.takeOver(t)
	works(d.who)
	d.idle(t, ours)
	d.unchanged(t, before)
	d.untouched(t, kinds...)
	if said := ours.output.tail(1 << 20); strings.Contains(said, "forbidden") {
		t.Errorf("a right is missing:\n%s", said)
	}

	d.giveBack(t, ours)
	d.begin(t, "cert-manager")
	before = d.state(t, kinds...)
	var theirs []*process
	for _, start := range programs {
		theirs = append(theirs, start())
	}
	works(d.who)
	for _, address := range d.metrics {
		eventually(t, "its queues are empty", func() bool {
			response, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				return false
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			return err == nil && queuesEmpty(string(text))
		})
	}
	d.unchanged(t, before)
	d.untouched(t) // its cainjector sends what is there already
	stop(t, theirs...)
}

// idle waits until certplane has worked on everything that it knows of. New objects come
// before those that were there at the start.
func (d *dropIn) idle(t *testing.T, r *replica) {
	t.Helper()
	const monitor = "system:serviceaccount:cert-manager:default"
	d.bind(t, "system:monitoring", monitor)
	token := strings.TrimSpace(d.kubectl(t, "create", "token", "-n", "cert-manager", "default"))
	eventually(t, "the queues are empty", func() bool {
		code, text := r.scrape(t, token)
		return code == http.StatusOK && queuesEmpty(text)
	})
}

// queuesEmpty reports whether metrics tell of queues, none of which has an object that waits or
// is worked on.
func queuesEmpty(metrics string) bool {
	known := false
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "workqueue_depth{") && !strings.HasPrefix(line, "controller_runtime_active_workers{") {
			continue
		}
		known = true
		if !strings.HasSuffix(line, " 0\n") {
			return false
		}
	}
	return known
}

// stop stops programs, which must not have failed.
func stop(t *testing.T, programs ...*process) {
	t.Helper()
	for _, p := range programs {
		if err := p.stop(); err != nil {
			t.Errorf("%s ended with %v", p.command.Path, err)
		}
	}
}
