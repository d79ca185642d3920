package adopt_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/adopt"
	"github.com/certplane/certplane/internal/client/cli/check"
)

// part returns a Deployment of cert-manager.
func part(name, component, version, args string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  namespace: cert-manager
  labels: {app.kubernetes.io/name: %[2]s, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: %[2]s, app.kubernetes.io/version: %[3]s}
spec:
  replicas: 1
  template:
    metadata: {labels: {app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: %[2]s}}
    spec:
      serviceAccountName: %[1]s
      containers:
      - {name: c, image: 'quay.io/jetstack/cert-manager-%[2]s:%[3]s', args: [%[4]s]}
`, name, component, version, args)
}

const webhookOfCertManager = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: cert-manager-webhook, labels: {app.kubernetes.io/name: webhook, app.kubernetes.io/instance: cert-manager}}
webhooks:
- name: webhook.cert-manager.io
  clientConfig: {url: 'https://127.0.0.1:1/'}
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 1
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [none.example.com], apiVersions: [v1], resources: ['*'], operations: ['*']}]
`

// withCertManager returns a world with cert-manager, a CA and five Certificates.
func withCertManager(t *testing.T, version, args string) *world {
	t.Helper()
	w := newWorld(t, "cert-manager")
	w.create(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: cert-manager, namespace: cert-manager, labels: {app.kubernetes.io/name: cert-manager, app.kubernetes.io/instance: cert-manager}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cert-manager-controller-issuers, labels: {app.kubernetes.io/name: cert-manager, app.kubernetes.io/instance: cert-manager}}
rules: [{apiGroups: [cert-manager.io], resources: [issuers], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cert-manager-controller-issuers, labels: {app.kubernetes.io/name: cert-manager, app.kubernetes.io/instance: cert-manager}}
subjects: [{kind: ServiceAccount, name: cert-manager, namespace: cert-manager}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cert-manager-controller-issuers}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: hetzner}
rules: [{apiGroups: [acme.hetzner.example], resources: ['*'], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: hetzner}
subjects: [{kind: ServiceAccount, name: cert-manager, namespace: cert-manager}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hetzner}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self, namespace: default}
spec: {selfSigned: {}}
---
` + webhookOfCertManager)
	w.deploy(part("cert-manager", "controller", version, strings.Join([]string{"'--cluster-resource-namespace=$(POD_NAMESPACE)'", "--leader-election-namespace=kube-system", args}, ", ")))
	w.deploy(part("cert-manager-cainjector", "cainjector", version, ""))
	w.deploy(part("cert-manager-webhook", "webhook", version, "--secure-port=10250"))
	for i := range 5 {
		w.create(fmt.Sprintf(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web-%[1]d, namespace: default}
spec: {secretName: web-%[1]d, dnsNames: [web-%[1]d.example], issuerRef: {name: self, kind: Issuer}, privateKey: {algorithm: ECDSA, rotationPolicy: Always}}
`, i))
	}
	apitest.Eventually(t, "the Certificates are ready", func() bool {
		all := &cmv1.CertificateList{}
		if err := w.api.List(t.Context(), all); err != nil || len(all.Items) != 5 {
			return false
		}
		return !slices.ContainsFunc(all.Items, func(crt cmv1.Certificate) bool {
			return !certmanager.CertificateIs(&crt, cmv1.CertificateConditionReady)
		})
	})
	return w
}

func (w *world) read() *adopt.Plan {
	w.t.Helper()
	p, err := adopt.Read(w.t.Context(), w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// texts returns the findings with a result.
func texts(p *adopt.Plan, result check.Result) string {
	var all []string
	for _, c := range p.Checks {
		if c.Result == result {
			all = append(all, c.Topic+": "+c.Text)
		}
	}
	return strings.Join(all, "\n")
}

// A usual installation is covered, and its settings are in the configuration.
func TestRead(t *testing.T) {
	w := withCertManager(t, "v1.21.1", "--max-concurrent-challenges=5, '--dns01-recursive-nameservers=1.1.1.1:53,8.8.8.8:53', --enable-gateway-api=true, '--controllers=*,-certificaterequests-approver', --v=2")
	p := w.read()
	if covered, known := p.Covered(); !covered || !known {
		t.Errorf("not covered:\n%s\n%s", texts(p, check.Failed), texts(p, check.NotChecked))
	}
	if len(p.WouldIssue)+len(p.WouldWrite) > 0 {
		t.Errorf("it would issue %v and write %v", p.WouldIssue, p.WouldWrite)
	}
	got := fmt.Sprint(p.Configuration["controllers"], p.Configuration["leaderElection"], p.Configuration["acme"], p.Configuration["certManager"])
	for _, want := range []string{
		"[@cert-manager gateway-shim -certificaterequests-approver]", "cert-manager-controller namespace:kube-system", "cert-manager-cainjector-leader-election namespace:kube-system",
		"maxConcurrentChallenges:5", "[1.1.1.1:53 8.8.8.8:53]", "enableGatewayAPI:true", "clusterResourceNamespace:cert-manager", "renewalInformation:false", "listenerSets:false",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the configuration lacks %q: %s", want, got)
		}
	}
	if len(p.Trusted) != 1 || p.Trusted[0].Name != "hetzner" || !slices.Equal(p.Trusted[0].Accounts, []string{"cert-manager-challenges"}) {
		t.Errorf("trusted: %+v", p.Trusted)
	}
}

// The settings of trust-manager are in the configuration, and what must be done by hand is listed.
func TestReadTrustManager(t *testing.T) {
	w := newWorld(t, "trust-manager")
	text := part("trust-manager", "trust-manager", "v0.24.0", "--trust-namespace=trust, --filter-expired-certificates=true, --secret-targets-enabled=true, --webhook-port=6443, --leader-election-lease-duration=15s")
	w.deploy(strings.ReplaceAll(text, "quay.io/jetstack/cert-manager-trust-manager", "quay.io/jetstack/trust-manager"))
	w.create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: trust-manager, namespace: cert-manager}}")
	p := w.read()
	if covered, known := p.Covered(); !covered || !known {
		t.Errorf("not covered:\n%s\n%s", texts(p, check.Failed), texts(p, check.NotChecked))
	}
	got := fmt.Sprint(p.Configuration["controllers"], p.Configuration["leaderElection"], p.Configuration["trustManager"])
	if want := "[@trust-manager] map[alsoHold:[map[name:trust-manager-leader-election namespace:cert-manager]]] map[filterExpired:true trustNamespace:trust]"; got != want {
		t.Errorf("configuration: %s", got)
	}
	if got := texts(p, check.Warning); !strings.Contains(got, "--secret-targets-enabled of the controller has no counterpart") {
		t.Errorf("warnings:\n%s", got)
	}
}

// Each of these is found, and not covered.
func TestNotCovered(t *testing.T) {
	w := withCertManager(t, "v1.12.0", "--namespace=team, --leader-elect=false, --unknown=x, --feature-gates=Secret=true")
	w.create(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: only-cert-manager}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [none.example.com], apiVersions: [v1], resources: [x], operations: [CREATE]}]}
  validations: [{expression: "request.userInfo.username == 'system:serviceaccount:cert-manager:cert-manager'"}]
`)
	sa := &corev1.ServiceAccount{}
	w.get(sa, "cert-manager", "cert-manager")
	sa.Annotations = map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/dns"}
	if err := w.api.Update(t.Context(), sa); err != nil {
		t.Fatal(err)
	}
	got := texts(w.read(), check.Failed)
	for _, want := range []string{
		"version \"1.12.0\" is too old", "the namespace team only", "elects no leader", "--unknown of the controller is unknown", "feature gate Secret is unknown",
		"ValidatingAdmissionPolicy only-cert-manager names the account", "AWS trusts the account",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not found: %s in\n%s", want, got)
		}
	}
	w.config.Careless = true
	if err := adopt.Run(t.Context(), w.config, 0); err == nil || !strings.Contains(err.Error(), "not covered") {
		t.Errorf("--run --yes: %v", err)
	}
}

// What the controllers would write is found: a Certificate of an Ingress that does not exist, one
// that lags behind its Ingress, one of a removed entry, and another CA in a webhook configuration.
func TestWouldWrite(t *testing.T) {
	w := withCertManager(t, "v1.21.1", "")
	definition, err := os.ReadFile("../../../run/cluster/testdata/ingresses.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.create(string(definition))
	ingress := w.object(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: default, annotations: {cert-manager.io/issuer: self, cert-manager.io/usages: server auth}}
spec: {tls: [{hosts: [new.example], secretName: new}, {hosts: [web-0.example], secretName: web-0}]}
`)
	apitest.Eventually(t, "Ingresses are served", func() bool {
		ingress.SetResourceVersion("")
		return w.api.Create(t.Context(), ingress) == nil
	})
	for _, name := range []string{"web-0", "web-1"} {
		crt := &cmv1.Certificate{}
		w.get(crt, "default", name)
		crt.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ingress, ingress.GroupVersionKind())}
		crt.Spec.PrivateKey = nil // as of cert-manager's shim
		if err := w.api.Update(t.Context(), crt); err != nil {
			t.Fatal(err)
		}
	}
	w.create(`
apiVersion: v1
kind: Secret
metadata: {name: ca, namespace: default, annotations: {cert-manager.io/allow-direct-injection: "true"}}
stringData: {ca.crt: none}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook, annotations: {cert-manager.io/inject-ca-from-secret: default/ca}}
webhooks: [{name: hook.example.com, clientConfig: {url: 'https://127.0.0.1:1/'}, failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1], rules: []}]
`)
	p := w.read()
	var writes []string
	for _, change := range p.WouldWrite {
		writes = append(writes, change.Object+" "+change.Why)
	}
	for _, want := range []string{"Certificate default/new created", "Certificate default/web-1 deleted"} {
		if !slices.Contains(writes, want) {
			t.Errorf("it would not write %q: %q", want, writes)
		}
	}
	if got := texts(p, check.Warning); !strings.Contains(got, "1 Certificate behind the annotations") || !strings.Contains(got, "ValidatingWebhookConfiguration hook gets no CA: The key ca.crt of the Secret default/ca cannot be read") {
		t.Errorf("warnings:\n%s\nwrites: %q", got, writes)
	}
	if covered, _ := p.Covered(); covered {
		t.Error("it is covered")
	}
}

// A Certificate whose Secret does not fit would be issued.
func TestWouldIssue(t *testing.T) {
	w := withCertManager(t, "v1.21.1", "")
	before := w.write()
	crt := &cmv1.Certificate{}
	w.get(crt, "default", "web-3")
	crt.Spec.DNSNames = []string{"other.example"}
	w.config.Now = func() time.Time { return time.Now() }
	if err := w.api.Update(t.Context(), crt); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "it is issued again", func() bool {
		w.get(crt, "default", "web-3")
		return crt.Status.Revision != nil && *crt.Status.Revision == 2
	})
	report, err := adopt.Verify(t.Context(), w.config, before)
	if err != nil {
		t.Fatal(err)
	}
	if text := report.Text(); !strings.Contains(text, "Certificate default/web-3 has a new key") || report.Count[check.Failed] != 1 {
		t.Errorf("verified:\n%s", text)
	}
}

// write writes the files of a move, and returns the path of before.json.
func (w *world) write() string {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "move")
	if err := adopt.Write(w.t.Context(), w.config, w.read(), dir); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"config.yaml", "definitions.yaml", "certplane.yaml", "steps.md", "values-stop.yaml", "values-keep.yaml", "before.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(text) == 0 || strings.Contains(string(text), "PRIVATE KEY") {
			w.t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	return filepath.Join(dir, "before.json")
}

// leads plays the leaders: each program holds the leases while its Deployment has pods, and
// certplane takes those that nobody holds.
func (w *world) leads() {
	running := map[string]bool{"cert-manager": true, "cert-manager-cainjector": true}
	leases := map[string]string{"cert-manager-controller": "cert-manager", "cert-manager-cainjector-leader-election": "cert-manager-cainjector"}
	w.changed = func(path string, replicas int64) {
		w.mu.Lock()
		running[path[strings.LastIndex(path, "/")+1:]] = replicas > 0
		w.mu.Unlock()
	}
	hold := func(lease, holder string) {
		o := &coordinationv1.Lease{}
		if !w.get(o, "kube-system", lease) {
			o.Namespace, o.Name = "kube-system", lease
			o.Spec.HolderIdentity = &holder
			if err := w.api.Create(w.t.Context(), o); err != nil {
				w.t.Fatal(err)
			}
			return
		}
		o.Spec.HolderIdentity = &holder
		if err := w.api.Update(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	holders := map[string]string{}
	w.sleep = func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for lease, theirs := range leases {
			if !running[holders[lease]] {
				holders[lease] = ""
			}
			for _, candidate := range []string{theirs, "certplane-controllers"} {
				if running[candidate] && holders[lease] == "" {
					holders[lease] = candidate
				}
			}
			identity := holders[lease]
			if identity == "certplane-controllers" {
				identity = "certplane-system/certplane-controllers_pod_1"
			}
			w.mu.Unlock()
			hold(lease, identity)
			w.mu.Lock()
		}
		return nil
	}
	if err := w.sleep(); err != nil {
		w.t.Fatal(err)
	}
}

// The whole move, interrupted at each wait and each question, and back before step 6.
func TestRunAndBack(t *testing.T) {
	w := withCertManager(t, "v1.21.1", "")
	before := w.write()
	w.leads()
	for round := range 2 {
		w.run(5)
		d := &appsv1.Deployment{}
		if w.get(d, "cert-manager", "cert-manager"); *d.Spec.Replicas != 0 {
			t.Fatalf("round %d: cert-manager has %d replicas", round, *d.Spec.Replicas)
		}
		copied := &rbacv1.ClusterRoleBinding{}
		if !w.get(copied, "", "hetzner-certplane") || copied.Subjects[0].Name != "cert-manager-challenges" {
			t.Errorf("the copied binding: %+v", copied)
		}
		if err := adopt.Back(t.Context(), w.config); err != nil {
			t.Fatal(err)
		}
		if w.get(d, "cert-manager", "cert-manager"); *d.Spec.Replicas != 1 {
			t.Errorf("back: cert-manager has %d replicas", *d.Spec.Replicas)
		}
		if w.get(d, "certplane-system", "certplane-controllers") || w.get(copied, "", "hetzner-certplane") || w.get(&corev1.ConfigMap{}, "certplane-system", "certplane-adopt-cert-manager") {
			t.Error("back: something of certplane is left")
		}
	}
	// A person uninstalls the rest when step 7 says so.
	play := w.sleep
	w.sleep = func() error {
		if strings.Contains(w.out.String(), "Run in another terminal:") {
			for _, name := range []string{"cert-manager", "cert-manager-cainjector"} {
				d := &appsv1.Deployment{}
				if w.get(d, "cert-manager", name) {
					if err := w.api.Delete(t.Context(), d); err != nil {
						return err
					}
				}
			}
		}
		return play()
	}
	w.run(0)
	if w.get(&admissionregistrationv1.ValidatingWebhookConfiguration{}, "", "cert-manager-webhook") || w.get(&appsv1.Deployment{}, "cert-manager", "cert-manager-webhook") {
		t.Error("the webhook of cert-manager is left")
	}
	report, err := adopt.Verify(t.Context(), w.config, before)
	if err != nil || report.Count[check.Failed] > 0 || !strings.Contains(report.Text(), "5 Certificates unchanged") {
		t.Errorf("verified: %v\n%s", err, report.Text())
	}
	if w.slept < 20*time.Minute {
		t.Errorf("the moves waited for only %s", w.slept)
	}
}

// run runs the move again and again: each time it is interrupted one wait later, until it ends.
func (w *world) run(last int) {
	w.t.Helper()
	interrupted, play := errors.New("interrupted"), w.sleep
	defer func() { w.sleep = play }()
	for waits := 1; ; waits += 7 {
		left := waits
		w.sleep = func() error {
			if left--; left < 0 {
				return interrupted
			}
			return play()
		}
		var err error
		for step := 1; step <= last && err == nil; step++ {
			err = adopt.Run(w.t.Context(), w.config, step)
		}
		if last == 0 {
			err = adopt.Run(w.t.Context(), w.config, 0)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, interrupted) || waits > 1000 {
			w.t.Fatalf("after %d waits: %v\n%s", waits, err, &w.out)
		}
	}
}

// A tool that puts the replicas back stops the move.
func TestPutBack(t *testing.T) {
	w := withCertManager(t, "v1.21.1", "")
	w.leads()
	play, stopped := w.sleep, 0
	w.sleep = func() error {
		d := &appsv1.Deployment{}
		if w.get(d, "cert-manager", "cert-manager"); *d.Spec.Replicas == 0 {
			if stopped++; stopped > 5 {
				w.deploy(part("cert-manager", "controller", "v1.21.1", "--leader-election-namespace=kube-system"))
			}
		}
		return play()
	}
	err := adopt.Run(t.Context(), w.config, 0)
	if err == nil || !strings.Contains(err.Error(), "step 4: another program has put back what this step takes away") {
		t.Errorf("run: %v\n%s", err, &w.out)
	}
}

// A release of Helm that would delete the definitions is found, and step 7 refuses.
func TestKeep(t *testing.T) {
	w := withCertManager(t, "v1.21.1", "")
	text := part("cert-manager", "controller", "v1.21.1", "--leader-election-namespace=kube-system")
	w.deploy(strings.Replace(text, "metadata:", "metadata:\n  annotations: {meta.helm.sh/release-name: cm}", 1))
	content, err := json.Marshal(map[string]any{
		"config":   map[string]any{"webhook": map[string]any{"hostNetwork": true}, "extraEnv": []any{map[string]any{"name": "PASSWORD", "value": "secret"}}},
		"manifest": "kind: CustomResourceDefinition\nmetadata: {name: certificates.cert-manager.io}\nspec: {group: cert-manager.io}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	if _, err := packer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: "sh.helm.release.v1.cm.v1", Labels: map[string]string{"owner": "helm", "name": "cm", "status": "deployed"}},
		Data:       map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))},
	}); err != nil {
		t.Fatal(err)
	}
	p := w.read()
	got := texts(p, check.Warning)
	for _, want := range []string{"helm uninstall would delete the definitions of the release cm", "the value webhook.hostNetwork of the chart has no counterpart"} {
		if !strings.Contains(got, want) {
			t.Errorf("not found: %s in\n%s", want, got)
		}
	}
	if all, err := json.Marshal(p); err != nil || strings.Contains(string(all), "secret\"") {
		t.Errorf("the plan contains a value of the chart, or %v:\n%s", err, all)
	}
	w.leads()
	if err := adopt.Run(t.Context(), w.config, 0); err == nil || !strings.Contains(err.Error(), "step 7: the release cm of Helm does not keep the definitions certificates.cert-manager.io") {
		t.Errorf("run: %v", err)
	}
}
