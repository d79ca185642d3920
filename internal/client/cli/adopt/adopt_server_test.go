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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/adopt"
	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/pki"
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

// withCertManager returns a world with cert-manager, a CA and six Certificates, of which one has a
// keystore.
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
	w.create(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: store, namespace: default}
spec:
  secretName: store
  dnsNames: [store.example]
  issuerRef: {name: self, kind: Issuer}
  privateKey: {algorithm: ECDSA, rotationPolicy: Always}
  keystores: {pkcs12: {create: true, password: changeit}}
`)
	apitest.Eventually(t, "the Certificates are ready", func() bool {
		all := &cmv1.CertificateList{}
		if err := w.api.List(t.Context(), all); err != nil || len(all.Items) != 6 {
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

// installation is a way in which people install cert-manager.
type installation struct {
	name, version string
	// labels and annotations are those of the Deployments; COMPONENT and NAME are replaced.
	labels, annotations string
	image               string // the prefix of the names of images
	controller          string // more arguments
	// Findings: the namespace of the Leases, the texts of warnings, and a part of the
	// configuration.
	leases, warning, configuration string
}

const chartLabels = "app: NAME, app.kubernetes.io/name: NAME, app.kubernetes.io/instance: cert-manager, app.kubernetes.io/component: COMPONENT"

// The installations differ in labels, image names, arguments and Leases: from the chart of each
// minor version, the manifests of releases, the Operator Lifecycle Manager, and GitOps tools.
var installations = []installation{
	{name: "manifest", version: "v1.13.2", labels: chartLabels + ", app.kubernetes.io/version: v1.13.2", image: "quay.io/jetstack/cert-manager-",
		controller: "--acme-http01-solver-image=quay.io/jetstack/cert-manager-acmesolver:v1.13.2, --max-concurrent-challenges=60", leases: "kube-system", configuration: "maxConcurrentChallenges:60"},
	{name: "chart", version: "v1.14.7", labels: chartLabels + ", app.kubernetes.io/version: v1.14.7, app.kubernetes.io/managed-by: Helm, helm.sh/chart: cert-manager-v1.14.7", annotations: "meta.helm.sh/release-name: cert-manager",
		image: "quay.io/jetstack/cert-manager-", controller: "--default-issuer-name=letsencrypt, --default-issuer-kind=ClusterIssuer, --feature-gates=ExperimentalGatewayAPISupport=true", leases: "kube-system", configuration: "gateway-shim"},
	{name: "autopilot", version: "v1.15.5", labels: chartLabels + ", app.kubernetes.io/version: v1.15.5", image: "quay.io/jetstack/cert-manager-", controller: "--leader-election-namespace=cert-manager, --enable-gateway-api", leases: "cert-manager", configuration: "enableGatewayAPI:true"},
	{name: "registry", version: "v1.16.3", labels: "app.kubernetes.io/name: NAME, app.kubernetes.io/instance: cm, app.kubernetes.io/component: COMPONENT, app.kubernetes.io/version: v1.16.3", image: "registry.local:5000/mirror/cm-", leases: "kube-system"},
	{name: "digests", version: "v1.17.4", labels: chartLabels + ", app.kubernetes.io/version: v1.17.4", image: "registry.local:5000/cert-manager-", leases: "kube-system"},
	{name: "Flux", version: "v1.18.2", labels: chartLabels + ", app.kubernetes.io/version: v1.18.2, helm.toolkit.fluxcd.io/name: cert-manager, helm.toolkit.fluxcd.io/namespace: flux-system", image: "quay.io/jetstack/cert-manager-",
		controller: "--enable-certificate-owner-ref=true, --dns01-recursive-nameservers-only", leases: "kube-system", warning: "Flux keeps these objects", configuration: "enableCertificateOwnerRef:true"},
	{name: "Argo CD", version: "v1.19.1", labels: "app.kubernetes.io/name: NAME, app.kubernetes.io/instance: platform, app.kubernetes.io/component: COMPONENT, app.kubernetes.io/version: v1.19.1", annotations: "argocd.argoproj.io/tracking-id: 'platform:apps/Deployment:cert-manager/x'",
		image: "quay.io/jetstack/cert-manager-", leases: "kube-system", warning: "Argo CD keeps these objects"},
	{name: "OLM", version: "v1.16.5", labels: "olm.owner: cert-manager.v1.16.5, olm.owner.kind: ClusterServiceVersion", image: "quay.io/jetstack/cert-manager-", leases: "kube-system", warning: "the Operator Lifecycle Manager keeps these objects"},
	{name: "gates", version: "v1.20.2", labels: chartLabels + ", app.kubernetes.io/version: v1.20.2", image: "quay.io/jetstack/cert-manager-",
		controller: "--enable-gateway-api=true, --enable-gateway-api-listenerset=true, '--feature-gates=ListenerSets=true,ACMEUseARI=true'", leases: "kube-system", configuration: "listenerSets:true"},
	{name: "newest", version: "v1.21.2", labels: chartLabels + ", app.kubernetes.io/version: v1.21.2", image: "quay.io/jetstack/cert-manager-", leases: "kube-system", configuration: "renewalInformation:false"},
}

// The facts of each installation are right, and all of them are covered. Nothing is changed.
func TestInstallations(t *testing.T) {
	w := newWorld(t, "cert-manager")
	for _, account := range []string{"cert-manager", "cert-manager-cainjector", "cert-manager-webhook"} {
		w.create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: " + account + ", namespace: cert-manager}}")
	}
	for _, in := range installations {
		t.Run(in.name, func(t *testing.T) {
			for component, args := range map[string]string{
				"controller": "--v=2, '--cluster-resource-namespace=$(POD_NAMESPACE)', --leader-election-namespace=kube-system, " + in.controller, "cainjector": "--v=2, --leader-election-namespace=" + in.leases, "webhook": "--v=2, --secure-port=10250, --dynamic-serving-ca-secret-name=cert-manager-webhook-ca",
			} {
				name, label := strings.TrimSuffix("cert-manager-"+component, "-controller"), component
				if component == "controller" {
					label = "cert-manager"
				}
				tag := ":" + in.version
				if in.name == "digests" {
					tag = "@sha256:" + strings.Repeat("0", 64)
				}
				w.deploy(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: cert-manager, labels: {%[2]s}, annotations: {%[3]s}}
spec:
  replicas: 1
  template:
    spec: {serviceAccountName: %[1]s, containers: [{name: c, image: '%[4]s', args: [%[5]s]}]}
`, name, strings.NewReplacer("COMPONENT", component, "NAME", label).Replace(in.labels), in.annotations, in.image+component+tag, args))
			}
			p := w.read()
			if covered, known := p.Covered(); !covered || !known || len(p.Parts) != 3 {
				t.Fatalf("not covered:\n%s\n%s\n%+v", texts(p, check.Failed), texts(p, check.NotChecked), p.Parts)
			}
			for _, part := range p.Parts {
				if "v"+part.Version != in.version {
					t.Errorf("%s has the version %s", part.Name, part.Version)
				}
				if namespace, _, leads := strings.Cut(part.Lease, "/"); leads && namespace != in.leases {
					t.Errorf("%s has the Lease %s", part.Name, part.Lease)
				}
			}
			if got := texts(p, check.Warning); !strings.Contains(got, in.warning) || in.warning == "" && got != "" {
				t.Errorf("warnings:\n%s", got)
			}
			if got := fmt.Sprint(p.Configuration); !strings.Contains(got, in.configuration) {
				t.Errorf("the configuration lacks %s: %s", in.configuration, got)
			}
		})
	}
	if len(w.deleted) > 0 || w.get(&corev1.Namespace{}, "", "certplane-system") && w.get(&corev1.ConfigMap{}, "certplane-system", "certplane-adopt-cert-manager") {
		t.Errorf("something was changed: %q", w.deleted)
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

// The targets of Bundles are compared: one that is written again is listed, and a Bundle that is
// not synced.
func TestTargets(t *testing.T) {
	w := newWorld(t, "trust-manager")
	w.deploy(strings.ReplaceAll(part("trust-manager", "trust-manager", "v0.24.0", ""), "quay.io/jetstack/cert-manager-trust-manager", "quay.io/jetstack/trust-manager"))
	w.create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: trust-manager, namespace: cert-manager}}")
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	bundle := func(name, source, key string) *unstructured.Unstructured {
		return w.object(fmt.Sprintf(`
apiVersion: trust.cert-manager.io/v1alpha1
kind: Bundle
metadata: {name: %s}
spec: {sources: [%s], target: {configMap: {key: %s}}}
`, name, source, key))
	}
	good := fmt.Sprintf("{inLine: %q}", pki.EncodeCertificates(root.Certificate()))
	for _, b := range []*unstructured.Unstructured{bundle("good", good, "ca.crt"), bundle("bad", "{configMap: {name: none, key: none}}", "ca.crt")} {
		if err := w.api.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, "the target is written", func() bool { return w.get(&corev1.ConfigMap{}, "default", "good") })
	before := w.write()
	if got := texts(w.read(), check.Warning); !strings.Contains(got, "Bundle bad is not synced") || strings.Contains(got, "Bundle good") {
		t.Errorf("warnings:\n%s", got)
	}
	verified := func() string {
		report, err := adopt.Verify(t.Context(), w.config, before)
		if err != nil || report.Count[check.Failed] > 0 {
			t.Fatalf("verified: %v\n%s", err, report.Text())
		}
		return report.Text()
	}
	if text := verified(); strings.Contains(text, "has changed") {
		t.Errorf("verified:\n%s", text)
	}
	changed := bundle("good", good, "other.crt")
	if err := w.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(changed), client.FieldOwner("test"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the target is listed", func() bool { return strings.Contains(verified(), "ConfigMap default/good has changed, or is gone") })
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
	w.create(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: root, namespace: default}
spec: {isCA: true, secretName: root, commonName: root, issuerRef: {name: self}}
`)
	sa := &corev1.ServiceAccount{}
	w.get(sa, "cert-manager", "cert-manager")
	sa.Annotations = map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/dns"}
	if err := w.api.Update(t.Context(), sa); err != nil {
		t.Fatal(err)
	}
	p := w.read()
	if got := texts(p, check.Warning); !strings.Contains(got, "keeps keys at renewal unless a rotationPolicy is set, and certplane makes new ones: default/root. CAs: default/root") {
		t.Errorf("the CA without a rotationPolicy is not listed:\n%s", got)
	}
	got := texts(p, check.Failed)
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
	stored := &corev1.Secret{}
	w.get(stored, "default", "store")
	stored.Data[cmv1.PKCS12SecretKey] = []byte("another")
	if err := w.api.Update(t.Context(), stored); err != nil { // the controller writes another one
		t.Fatal(err)
	}
	report, err := adopt.Verify(t.Context(), w.config, before)
	if err != nil {
		t.Fatal(err)
	}
	text := report.Text()
	for _, want := range []string{"Certificate default/web-3 has a new key", "the keystore keystore.p12 of Certificate default/store was written again"} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s in\n%s", want, text)
		}
	}
	if report.Count[check.Failed] != 1 {
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
	at := func(part string) int {
		return slices.IndexFunc(w.deleted, func(path string) bool { return strings.HasSuffix(path, part) })
	}
	if configuration, pods := at("/validatingwebhookconfigurations/cert-manager-webhook"), at("/deployments/cert-manager-webhook"); configuration < 0 || pods < configuration {
		t.Errorf("the webhook has no pods while its configuration is there: it deletes %q", w.deleted)
	}
	report, err := adopt.Verify(t.Context(), w.config, before)
	if err != nil || report.Count[check.Failed] > 0 || !strings.Contains(report.Text(), "6 Certificates unchanged") {
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
