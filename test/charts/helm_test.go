package charts

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../deploy/helm/certplane"

// installed is the namespace of the releases in these tests.
const installed = "certplane-system"

// values reads values as Helm does.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	read, err := loader.LoadValues(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// render renders the chart in a folder or archive with these values, as "helm template"
// does, and returns the notes apart.
func render(t *testing.T, chart, namespace, text string) (objects, string, error) {
	t.Helper()
	loaded, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "certplane", Namespace: namespace, Revision: 1, IsInstall: true}
	with, err := util.ToRenderValues(loaded, values(t, text), release, common.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Engine{Strict: true}.Render(loaded, with)
	if err != nil {
		return nil, "", err
	}
	all, notes := objects{}, ""
	for name, file := range files {
		switch {
		case path.Base(name) == "NOTES.txt":
			notes = file
		default:
			maps.Copy(all, decode(t, []byte(file)))
		}
	}
	return all, notes, nil
}

// whole is the part of values with which the chart has all that "certplane manifests" prints.
const whole = "image: certplane:v1\nnamespace: {create: true}\ncrds: {keep: false}\n"

func TestChartIsManifests(t *testing.T) {
	for _, tt := range []struct {
		reason string
		// namespace is the release's namespace.
		namespace string
		values    string
		flags     []string
		// config is the configuration file of "certplane manifests".
		config string
	}{
		{reason: "the defaults"},
		{reason: "image and replicas", values: "image: registry.example.com/a/b:v2\nreplicas: 3\n", flags: []string{"--image=registry.example.com/a/b:v2", "--replicas=3"}},
		{reason: "another namespace", namespace: "pki", flags: []string{"--namespace=pki"}},
		{reason: "a namespace that is not the release's", namespace: "default", values: "namespace: {name: pki-sign, create: true}\n", flags: []string{"--namespace=pki-sign"}},
		{reason: "a namespace that is a number", namespace: "123", flags: []string{"--namespace=123"}},
		{reason: "requests and limits", values: "resources: {requests: {cpu: 1, memory: 100M}, limits: {cpu: 1500m, memory: 1Gi}}\n", flags: []string{"--requests=cpu=1,memory=100M", "--limits=cpu=1500m,memory=1Gi"}},
		{reason: "half a core", values: "resources: {requests: {cpu: 0.5}}\n", flags: []string{"--requests=cpu=0.5"}},
		{reason: "no limit, no requests", values: "resources: {requests: {cpu: 0, memory: \"0\"}, limits: {memory: 0}}\n", flags: []string{"--requests=cpu=0,memory=0", "--limits=memory=0"}},
		{reason: "one controller less", values: "controllers: ['*', '-approve']\n", flags: []string{"--controllers=*,-approve"}},
		{reason: "the approver", values: "controllers: [approve, clean]\n", flags: []string{"--controllers=approve,clean"}},
		{reason: "signing without Signers", values: "controllers: [sign, trust, podsign]\n", flags: []string{"--controllers=sign,trust,podsign"}},
		{reason: "nothing for trust to publish", values: "controllers: [clean, trust]\n", flags: []string{"--controllers=clean,trust"}},
		{reason: "in place of cert-manager", values: "controllers: ['*', issuers, certificaterequests, certificates, orders, challenges]\n", flags: []string{"--controllers=*,issuers,certificaterequests,certificates,orders,challenges"}},
		{reason: "a part of cert-manager only", values: "controllers: [issuers, certificaterequests]\n", flags: []string{"--controllers=issuers,certificaterequests"}},
		{reason: "every controller", values: "controllers: ['*', publish, node-lifecycle-controller, issuers, certificaterequests, certificatesigningrequests, certificaterequests-approver, certificates, orders, challenges, ingress-shim, gateway-shim]\n",
			flags: []string{"--controllers=*,publish,node-lifecycle-controller,issuers,certificaterequests,certificatesigningrequests,certificaterequests-approver,certificates,orders,challenges,ingress-shim,gateway-shim"}},
		{reason: "a set", values: "controllers: ['*', '@cert-manager', '-certificaterequests-approver']\n", flags: []string{"--controllers=*,@cert-manager,-certificaterequests-approver"}},
		{reason: "less than a set", values: "controllers: ['@cert-manager', '-@cert-manager', approve]\n", flags: []string{"--controllers=@cert-manager,-@cert-manager,approve"}},
		{reason: "leases of other programs", values: "controllers: ['*', '@cert-manager']\n", flags: []string{"--controllers=*,@cert-manager"},
			config: "leaderElection: {alsoHold: [{namespace: kube-system, name: cert-manager-controller}, {namespace: kube-system, name: cert-manager-cainjector-leader-election, controllers: [cainjector]}]}\n"},
		{reason: "settings", config: "signing: {maxDuration: 480h0m0s}\nlogging: {verbosity: 2}\napproval: {strict: true}\n"},
		{reason: "CAs of single signers", config: "signing: {signers: [{name: kubernetes.io/kubelet-serving, ca: {certFile: /etc/certplane/ca/a.crt, keyFile: /etc/certplane/ca/a.key}}]}\n"},
		{reason: "a CA elsewhere", config: "signing: {ca: {certFile: /run/ca.crt, keyFile: /run/ca.key}}\n"},
		{reason: "ready-made Signers and policies", config: "podSigners: {install: [server]}\npolicy: {install: [no-system-identities]}\n"},
		{reason: "ready-made policies, and no controller for them", values: "controllers: [approve]\n", flags: []string{"--controllers=approve"}, config: "policy: {install: [no-system-identities]}\n"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			namespace, flags := tt.namespace, tt.flags
			if namespace == "" {
				namespace = installed
			}
			text := values(t, whole)
			text = loader.MergeMaps(text, values(t, tt.values))
			if tt.config != "" {
				text["config"] = values(t, tt.config)
				file := filepath.Join(t.TempDir(), "config.yaml")
				write(t, file, "apiVersion: config.certplane.dev/v1alpha1\nkind: ControllersConfiguration\n"+tt.config)
				flags = append(flags, "--config="+file)
			}
			merged, err := yaml.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := render(t, chartDir, namespace, string(merged))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, manifests(t, append([]string{"--image=certplane:v1"}, flags...)...))
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// By default the namespace is not the chart's, and its kinds stay when it is uninstalled.
func TestChartByDefault(t *testing.T) {
	got, notes, err := render(t, chartDir, installed, "")
	if err != nil {
		t.Fatal(err)
	}
	want := manifests(t, "--image=certplane:v0.0.0")
	delete(want, "Namespace <nil> "+installed)
	kept := 0
	for key, one := range got {
		if !strings.HasPrefix(key, "CustomResourceDefinition ") {
			continue
		}
		annotations := one.(map[string]any)["metadata"].(map[string]any)["annotations"].(map[string]any)
		if annotations["helm.sh/resource-policy"] == "keep" {
			kept++
		}
		delete(annotations, "helm.sh/resource-policy")
	}
	if kept < 5 {
		t.Errorf("%d kinds stay", kept)
	}
	same(t, got, want)
	if !strings.Contains(notes, "kubectl --namespace certplane-system create secret tls certplane-ca") {
		t.Errorf("the notes do not say what the pods wait for:\n%s", notes)
	}
	without, _, err := render(t, chartDir, installed, "crds: {install: false}")
	if err != nil {
		t.Fatal(err)
	}
	if len(without) != len(got)-kept {
		t.Errorf("%d objects without kinds, and %d with %d kinds", len(without), len(got), kept)
	}
}

func TestWrongValues(t *testing.T) {
	for _, tt := range []struct{ values, want string }{
		{"replica: 3", "additional properties 'replica' not allowed"},
		{"replicas: 0", "at '/replicas': minimum: got 0, want 1"},
		{"replicas: two", "at '/replicas': got string, want integer"},
		{"image: 'a b'", "at '/image'"},
		{"controllers: [aprove]", "at '/controllers/0': value must be one of"},
		{"controllers: ['@trustmanager']", "at '/controllers/0': value must be one of"},
		{"config: {leaderElection: {alsoHold: [{name: a}]}}", "config.leaderElection.alsoHold[0].namespace: missing"},
		{"config: {leaderElection: {alsoHold: [{namespace: a}]}}", "config.leaderElection.alsoHold[0].name: missing"},
		{"controllers: []", "at '/controllers': minItems: got 0, want 1"},
		{"controllers: ['-approve']", "controllers: none is chosen"},
		{"resources: {limits: {gpu: 1}}", "at '/resources/limits': additional properties 'gpu' not allowed"},
		{"resources: {limits: {memory: 1.5Gi}}", "at '/resources/limits/memory'"},
		{"resources: {limits: {memory: 32Mi}}", "resources.requests.memory: 64Mi is more than the limit, 32Mi"},
		{"resources: {limits: {cpu: 40m}}", "resources.requests.cpu: 50m is more than the limit, 40m"},
		{"namespace: {name: Pki}", "at '/namespace/name'"},
		{"namespace: {name: kube-system}", "namespace: kube-system is Kubernetes' own"},
		{"config: {acmeServer: {listen: ':8443'}}", "at '/config': additional properties 'acmeServer' not allowed"},
		{"config: {signing: {maxDurations: 1h}}", "at '/config/signing': additional properties 'maxDurations' not allowed"},
		{"config: {signing: {maxDuration: 1 hour}}", "at '/config/signing/maxDuration'"},
	} {
		if _, _, err := render(t, chartDir, installed, tt.values); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.values, err)
		}
	}
}

func TestLint(t *testing.T) {
	for _, text := range []string{"", "controllers: ['*', certificates, issuers]\nnamespace: {create: true}\n"} {
		for _, message := range lint.RunAll(chartDir, values(t, text), installed).Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%v", message)
			}
		}
	}
}
