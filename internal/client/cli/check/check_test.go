package check_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/run/server"
)

// world is a server that is checked at other times than now.
type world struct{ *apitest.Server }

// checks returns the checks of a time from now.
func (w world) checks(t *testing.T, in time.Duration) check.Report {
	t.Helper()
	report, err := check.Run(t.Context(), check.Config{
		Client: w.Admin(t), Now: func() time.Time { return time.Now().Add(in) },
		Line: func(words ...string) string { return print.CommandLine(append([]string{"certplane"}, words...)...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// eventually waits until a check of a topic has a result, and a text with a part.
func (w world) eventually(t *testing.T, in time.Duration, topic string, result check.Result, part string) check.Check {
	t.Helper()
	var found check.Check
	apitest.Eventually(t, topic+": "+part, func() bool {
		for _, c := range w.checks(t, in).Checks {
			if c.Topic == topic && c.Result == result && strings.Contains(c.Text, part) {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

func TestTimes(t *testing.T) {
	w := world{apitest.Start(t)}
	for _, tt := range []struct {
		reason string
		in     time.Duration
		topic  string
		result check.Result
		text   string
	}{
		{"clocks agree", 0, "Server", check.OK, "its clock and this machine's clock agree"},
		{"this clock is ahead", time.Minute, "Server", check.Warning, "is 60s ahead of the server's clock"},
		{"this clock is behind", -time.Hour, "Server", check.Failed, "is 60m behind the server's clock"},
		{"half of the time is over", 180 * 24 * time.Hour, "Credential", check.OK, "your client certificate ends on "},
		{"the last days", 350 * 24 * time.Hour, "Credential", check.Warning, "your client certificate ends on "},
		{"ended", 370 * 24 * time.Hour, "Credential", check.Failed, "your client certificate ended on "},
		{"the server's certificate has ended", 370 * 24 * time.Hour, "Server", check.Failed, "its certificate ended on "},
		{"roots have ended", 20 * 365 * 24 * time.Hour, "Trust bundles", check.Failed, "all roots of kubernetes.io/kubelet-serving have expired"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if found := w.eventually(t, tt.in, tt.topic, tt.result, tt.text); (found.Next == nil) != (tt.result == check.OK) {
				t.Errorf("what to do: %q", found.Next)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	w := world{apitest.Start(t)}
	client := apitest.Client(t, w.Admin(t))
	subject := pki.Subject{CommonName: "web"}
	apitest.Create(t, client, apitest.NewCSR(t, "undecided", "example.com/nobody", subject, apitest.NewKey(t)))
	unsigned := apitest.Create(t, client, apitest.NewCSR(t, "unsigned", "example.com/nobody", subject, apitest.NewKey(t)))
	apitest.Decide(t, client, unsigned, certificatesv1.CertificateApproved)

	if found := w.eventually(t, 2*time.Hour, "Requests", check.Warning, "CertificateSigningRequest undecided for example.com/nobody has waited for 120m to be approved or denied"); strings.Join(found.Next, "") != "certplane explain csr undecided" {
		t.Errorf("what to do: %q", found.Next)
	}
	w.eventually(t, 2*time.Hour, "Requests", check.Failed, "CertificateSigningRequest unsigned for example.com/nobody has waited for 120m to be signed")
	w.eventually(t, 0, "Requests", check.OK, "2 requests, all recent")
}

func TestCertificates(t *testing.T) {
	w := world{apitest.Start(t)}
	api, err := explain.Connect(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	issuer := &cmv1.Issuer{ObjectMeta: in("own"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}}
	certificate := func(name, issuer string) *cmv1.Certificate {
		return &cmv1.Certificate{ObjectMeta: in(name), Spec: cmv1.CertificateSpec{
			SecretName: name, DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: issuer},
		}}
	}
	for _, create := range []func() error{
		func() error { return api.Create(t.Context(), issuer) },
		func() error { return api.Create(t.Context(), certificate("good", "own")) },
	} {
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	w.eventually(t, 0, "Certificates", check.OK, "1 Certificate is ready")
	w.eventually(t, 70*day, "Certificates", check.Warning, "Certificate default/good: it should have been renewed ")
	w.eventually(t, 100*day, "Certificates", check.Failed, "Certificate default/good: it ended on ")
	// A Certificate is renewed: for the inventory too there is a newer one then.
	w.eventually(t, 88*day, "Inventory", check.Warning, "the certificate from issuers.cert-manager.io/default.own for good.example.com ends on ")

	if err := api.Create(t.Context(), certificate("bad", "nowhere")); err != nil {
		t.Fatal(err)
	}
	found := w.eventually(t, time.Hour, "Certificates", check.Failed, "Certificate default/bad: not ready: ")
	if strings.Join(found.Next, "") != "certplane explain certificate bad -n default" {
		t.Errorf("what to do: %q", found.Next)
	}
}

// A bundle whose source is missing is found, and forgotten once it is there.
func TestJoinedBundles(t *testing.T) {
	w := world{apitest.Start(t)}
	api, err := explain.Connect(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	source := map[string]any{"configMap": map[string]any{"name": "roots", "key": "ca.crt"}}
	for apiVersion, kind := range map[string]string{"certplane.dev/v1alpha1": "TrustBundle", "trust.cert-manager.io/v1alpha1": "Bundle"} {
		bundle := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": strings.ToLower(kind)}, // also the name of its target
			"spec": map[string]any{"sources": []any{source}, "target": map[string]any{"configMap": map[string]any{"key": "ca.crt"}}},
		}}
		if kind == "TrustBundle" {
			bundle.SetNamespace("default")
		}
		if err := api.Create(t.Context(), bundle); err != nil {
			t.Fatal(err)
		}
	}
	found := w.eventually(t, 0, "Trust bundles", check.Failed, "TrustBundle default/trustbundle: not synced: spec.sources[0]: ")
	if got := strings.Join(found.Next, ""); got != "certplane kubectl describe trustbundles.certplane.dev trustbundle -n default" {
		t.Errorf("what to do: %q", got)
	}
	w.eventually(t, 0, "Trust bundles", check.Failed, "Bundle bundle: not synced: Bundle source was not found: ")
	admin := apitest.Client(t, w.Admin(t))
	for _, namespace := range []string{"default", "cert-manager"} {
		roots := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "roots"}, Data: map[string]string{"ca.crt": string(pki.EncodeCertificates(w.ClientRoot(t)))}}
		if _, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), roots, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually(t, 0, "Trust bundles", check.OK, "2 bundles are in sync with the sources")
}

// A Certificate whose owner has lost its annotation is renewed for no one. The annotations are
// those that the settings of the controllers name, and those of the Gateway of a ListenerSet.
func TestUnrequested(t *testing.T) {
	w := world{apitest.Start(t)}
	api, err := explain.Connect(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../../../run/cluster/testdata/ingresses.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const gateway = "gateway.networking.k8s.io"
	for _, renaming := range []*strings.Replacer{
		strings.NewReplacer(),
		strings.NewReplacer("networking.k8s.io", gateway, "ingress", "gateway", "Ingress", "Gateway"),
		strings.NewReplacer("networking.k8s.io", gateway, "ingresses", "listenersets", "ingress", "listenerset", "Ingress", "ListenerSet"),
	} {
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(renaming.Replace(string(file)), "gatewayes", "gateways")), &definition.Object); err != nil {
			t.Fatal(err)
		}
		if err := api.Create(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "certplane", Labels: map[string]string{"app.kubernetes.io/name": "certplane"}},
		Data:       map[string]string{"config.yaml": "certManager: {ingressShim: {autoAnnotations: [kubernetes.io/tls-acme, example.com/tls]}}"},
	}); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []struct{ name, version, kind, annotation, parent string }{
		{"annotated", "networking.k8s.io/v1", "Ingress", "cert-manager.io/issuer", ""},
		{"auto", "networking.k8s.io/v1", "Ingress", "kubernetes.io/tls-acme", ""},
		{"configured", "networking.k8s.io/v1", "Ingress", "example.com/tls", ""},
		{"not", "networking.k8s.io/v1", "Ingress", "a", ""},
		{"edge", gateway + "/v1", "Gateway", "cert-manager.io/cluster-issuer", ""},
		{"automatic", gateway + "/v1", "Gateway", "kubernetes.io/tls-acme", ""},
		{"inherits", gateway + "/v1", "ListenerSet", "a", "edge"},
		{"lone", gateway + "/v1", "ListenerSet", "a", "none"},
	} {
		object := &unstructured.Unstructured{}
		apitest.Eventually(t, "the API has the kind "+owner.kind, func() bool {
			object.Object = map[string]any{"spec": map[string]any{"parentRef": map[string]any{"name": owner.parent}}}
			object.SetAPIVersion(owner.version)
			object.SetKind(owner.kind)
			object.SetNamespace("default")
			object.SetName(owner.name)
			object.SetAnnotations(map[string]string{owner.annotation: "true"})
			return api.Create(t.Context(), object) == nil
		})
		err := api.Create(t.Context(), &cmv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: owner.name + "-tls", OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(object, object.GroupVersionKind()),
			}},
			Spec: cmv1.CertificateSpec{SecretName: owner.name, DNSNames: []string{owner.name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "own"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]bool{}
	for name, owner := range map[string]string{"not": "Ingress not", "automatic": "Gateway automatic", "lone": "ListenerSet lone"} {
		text := "Certificate default/" + name + "-tls is renewed, but " + owner + " has no annotation for an issuer"
		w.eventually(t, 0, "Certificates", check.Warning, text)
		want[text] = true
	}
	for _, c := range w.checks(t, 0).Checks {
		if strings.Contains(c.Text, "has no annotation") && !want[c.Text] {
			t.Errorf("it reports: %s", c.Text)
		}
	}
}

// What ends soon is no matter once there is a newer certificate of the same signer and names.
func TestInventory(t *testing.T) {
	w := world{apitest.Start(t)}
	client := apitest.Client(t, w.Admin(t))
	issue := func(name string, seconds int32) {
		csr := apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "deploy"}, apitest.NewKey(t))
		csr.Spec.ExpirationSeconds = &seconds
		created := apitest.Create(t, client, csr)
		apitest.Issued(t, client, apitest.Decide(t, client, created, certificatesv1.CertificateApproved))
	}
	const nearEnd = 55 * time.Minute
	issue("first", 3600)
	w.eventually(t, nearEnd, "Inventory", check.Warning, "the certificate from kubernetes.io/kube-apiserver-client for CN=deploy ends on ")
	w.eventually(t, 0, "Inventory", check.OK, "no recorded certificate ends within 7 days without a newer one")
	issue("second", 7200)
	w.eventually(t, nearEnd, "Inventory", check.OK, "no recorded certificate ends within 7 days without a newer one")
}

// failed returns the failed checks of a report.
func failed(report check.Report) []check.Check {
	return slices.DeleteFunc(slices.Clone(report.Checks), func(c check.Check) bool { return c.Result != check.Failed })
}

// run checks the server of a client.
func run(t *testing.T, cfg *rest.Config) check.Report {
	t.Helper()
	report, err := check.Run(t.Context(), check.Config{
		Client: cfg, Now: time.Now, Line: func(words ...string) string { return print.CommandLine(append([]string{"certplane"}, words...)...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// A webhook that nobody serves is found by a dry run, which leaves nothing behind.
func TestDeadWebhook(t *testing.T) {
	w := world{apitest.Start(t)}
	admin := apitest.Client(t, w.Admin(t))
	w.eventually(t, 0, "Admission", check.OK, "requests passed admission in a dry run")
	url, bundle := apitest.Webhook(t, http.NotFoundHandler())
	fail := admissionregistrationv1.Fail
	none := admissionregistrationv1.SideEffectClassNone
	dead := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "dead"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "dead.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"certificates.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"certificatesigningrequests"}},
			}},
		}},
	}
	if _, err := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), dead, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, 0, "Admission", check.Failed, `failed calling webhook "dead.example.com"`)
	if all := failed(w.checks(t, 0)); len(all) != 1 {
		t.Errorf("one cause, %d failures: %+v", len(all), all)
	}
	left, err := admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("%d requests are left, err %v", len(left.Items), err)
	}
}

// A server that is not ready is not asked for more, and the reason is told to those who
// may know it.
func TestNotReady(t *testing.T) {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/version":
			fmt.Fprint(w, `{"gitVersion":"v1.37.2"}`)
		case "/readyz":
			http.Error(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed", http.StatusInternalServerError)
		case "/readyz/etcd":
			http.Error(w, "internal server error: etcd client connection not yet established", http.StatusInternalServerError)
		default:
			t.Errorf("it was asked for %s", r.URL.Path)
		}
	}))
	defer front.Close()
	all := failed(run(t, &rest.Config{Host: front.URL}))
	if len(all) != 1 || all[0].Text != "it is not ready: etcd: etcd client connection not yet established" {
		t.Errorf("failures: %+v", all)
	}
}

// A server that answers nothing more is one failure, within the time of a check.
func TestNoAnswer(t *testing.T) {
	server := apitest.Start(t).Stock(t)
	end := make(chan struct{})
	front := inFront(t, server, "/api", func(http.ResponseWriter) { <-end })
	defer close(end)
	began := time.Now()
	all := failed(run(t, front))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if len(all) != 1 || !strings.HasPrefix(all[0].Text, "the server did not answer in time") {
		t.Errorf("failures: %+v", all)
	}
}

// inFront returns a server in front of another one that answers paths with a prefix itself.
func inFront(t *testing.T, server *rest.Config, prefix string, answer func(http.ResponseWriter)) *rest.Config {
	t.Helper()
	target, err := url.Parse(server.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, prefix) {
			answer(w)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return &rest.Config{Host: front.URL}
}

// Kinds that "certplane serve" always has are missed.
func TestOwnKinds(t *testing.T) {
	stock := apitest.Start(t).Stock(t)
	front := inFront(t, stock, "/version", func(w http.ResponseWriter) { fmt.Fprintf(w, `{"gitVersion":"v1.37.2%s"}`, buildinfo.VersionSuffix) })
	if all := failed(run(t, front)); len(all) != 1 || !strings.Contains(all[0].Text, "it does not serve ") || !strings.Contains(all[0].Text, "signers.certplane.dev") {
		t.Errorf("failures: %+v", all)
	}
	if all := failed(run(t, stock)); len(all) != 0 {
		t.Errorf("failures of an API server of Kubernetes: %+v", all)
	}
}

// Of a Signer whose CA has ended there is one line, with what follows from it.
func TestEndedCA(t *testing.T) {
	w := world{apitest.Start(t)}
	api, err := explain.Connect(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1alpha1.SignerSpec{
		SignerName: "example.com/web", Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
		CA:      v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{CommonName: "Web"}},
		Profile: v1alpha1.SignerProfile{Names: v1alpha1.NamesProfile{DNSNames: "request.dnsNames"}, Usages: []string{"server auth"}},
	}}
	if err := api.Create(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
	const century = 100 * 365 * 24 * time.Hour
	apitest.Eventually(t, "the roots of the Signer are published", func() bool {
		for _, c := range w.checks(t, century).Checks {
			if strings.Contains(c.Text, "Signer web") && strings.Contains(strings.Join(c.Next, "\n"), "Because of it: all roots of example.com/web have expired") {
				return true
			}
		}
		return false
	})
	var about []string
	for _, c := range w.checks(t, century).Checks {
		if strings.Contains(c.Text, "example.com/web") || strings.Contains(c.Text, "example.com:web") {
			about = append(about, c.Text)
		}
	}
	if len(about) != 1 || !strings.HasPrefix(about[0], "Signer web (example.com/web): its CA ended on ") {
		t.Errorf("lines about the Signer: %q", about)
	}
}

// Pods of an installation that do not run are one failure, with their image.
func TestInstallation(t *testing.T) {
	stock := apitest.Start(t).Stock(t)
	api, err := explain.Connect(stock)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app.kubernetes.io/name": "certplane"}
	about := metav1.ObjectMeta{Namespace: "default", Name: "certplane-controllers", Labels: labels}
	pod := &corev1.Pod{ObjectMeta: about, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "certplane", Image: "example.com/certplane:v9"}}}}
	none := admissionregistrationv1.SideEffectClassNone
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: "certplane.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "certplane"}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"certificates.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"certificatesigningrequests"}},
		}},
	}
	replicas := int32(2)
	deployments := appsv1.DeploymentList{Items: []appsv1.Deployment{
		{ObjectMeta: about, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}}},
	}}
	front := inFront(t, stock, "/apis/apps/v1/deployments", func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		deployments.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
		if err := json.NewEncoder(w).Encode(deployments); err != nil {
			t.Error(err)
		}
	})
	for _, object := range []client.Object{
		pod,
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "certplane", Labels: labels}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}},
	} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "certplane", Image: "example.com/certplane:v9", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	if err := api.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	all := failed(run(t, front))
	if len(all) != 1 || all[0].Text != "Deployment default/certplane-controllers: 0 of 2 pods are available: ImagePullBackOff, image example.com/certplane:v9" {
		t.Errorf("failures: %+v", all)
	}
	if len(all) == 0 {
		return
	}
	if next := strings.Join(all[0].Next, "\n"); !strings.Contains(next, "Because of it: ValidatingWebhookConfiguration certplane: ") {
		t.Errorf("what to do: %s", next)
	}
}

// Leases of other programs are looked up in the configuration of the installation.
func TestOtherLeases(t *testing.T) {
	stock := apitest.Start(t).Stock(t)
	api, err := explain.Connect(stock)
	if err != nil {
		t.Fatal(err)
	}
	rows := ""
	lease := func(name, holder string, renewed time.Time) {
		rows += "{namespace: default, name: " + name + "}, "
		if holder == "" {
			return
		}
		err := api.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(60)), RenewTime: &metav1.MicroTime{Time: renewed},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	lease("cert-manager-controller", "cert-manager-7c-external-cert-manager-controller", time.Now())
	lease("cert-manager-cainjector-leader-election", "default/certplane-controllers", time.Now())
	lease("dead", "somebody", time.Now().Add(-time.Hour))
	lease("none", "", time.Time{})
	lease("of-mine", "default/certplane-controllers-2", time.Now())
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "certplane-controllers", Labels: map[string]string{"app.kubernetes.io/name": "certplane"}},
		Data:       map[string]string{"config.yaml": "leaderElection: {alsoHold: [" + rows + "]}"},
	}
	if err := api.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	found := map[string]check.Result{}
	for _, c := range run(t, stock).Checks {
		if c.Topic == "Installation" && strings.Contains(c.Text, "Lease") {
			text, _, _ := strings.Cut(c.Text, " (renewed")
			found[text] = c.Result
		}
	}
	want := map[string]check.Result{
		"controllers of default/certplane-controllers wait for the Lease default/cert-manager-controller, which cert-manager-7c-external-cert-manager-controller holds": check.Warning,
		"default/certplane-controllers holds the Lease default/cert-manager-cainjector-leader-election":                                                                 check.OK,
		"no program holds the Lease default/dead, for which controllers of default/certplane-controllers wait":                                                          check.Warning,
		"no program holds the Lease default/none, for which controllers of default/certplane-controllers wait":                                                          check.Warning,
		"controllers of default/certplane-controllers wait for the Lease default/of-mine, which default/certplane-controllers-2 holds":                                  check.Warning,
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

// The store of "certplane serve" is looked at.
func TestStore(t *testing.T) {
	w := world{apitest.Start(t)}
	w.eventually(t, 0, "Server", check.OK, "the store has space left: ")
	w.eventually(t, 0, "Server", check.OK, "the disk of its data folder has ")
}

// Lists that have not been renewed are found before programs refuse everybody.
func TestRevocationLists(t *testing.T) {
	w := world{apitest.Start(t)}
	const day = 24 * time.Hour
	w.eventually(t, 0, "Revocation", check.OK, "3 revocation lists are current")
	if found := w.eventually(t, 3*day, "Revocation", check.Failed, "the revocation list of CN=certplane client CA was signed 3d ago and not since"); found.Next == nil {
		t.Error("no next step")
	}
	w.eventually(t, 8*day, "Revocation", check.Failed, "programs that check it refuse all certificates of the CA")
	// The list of the root lives as long as the root.
	for _, c := range w.checks(t, 300*day).Checks {
		if c.Topic == "Revocation" && strings.Contains(c.Text, "client root") {
			t.Errorf("the root's list: %+v", c)
		}
	}
}

// A host whose agent gets no newer lists is told of. The list of a root is older.
func TestHostsBehind(t *testing.T) {
	w := world{apitest.Start(t)}
	w.eventually(t, 0, "Revocation", check.OK, "3 revocation lists are current")
	core := apitest.Client(t, w.Admin(t)).CoreV1()
	now := time.Now()
	for name, ends := range map[string]time.Time{"current": now.AddDate(0, 0, 7), "late": now.AddDate(0, 0, 6), "behind": now.AddDate(0, 0, 4)} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: agenthost.Taint, Effect: corev1.TaintEffectNoExecute}}}}
		if _, err := core.Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{agenthost.ManifestAnnotation: "x"}},
			Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}
		pod, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod.Status.Conditions = []corev1.PodCondition{agenthost.ListsConditionOf([]agenthost.RevocationLists{{
			Volume: "tls", Signer: certificatesv1.KubeAPIServerClientSignerName, Path: "crl.pem", Numbers: []string{"7", "8"}, ThisUpdate: now.AddDate(-1, 0, 0), NextUpdate: ends,
		}})}
		if _, err := core.Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually(t, 0, "Revocation", check.Warning, "host behind: the revocation lists in crl.pem of default/behind are ")
	for _, c := range w.checks(t, 0).Checks {
		if c.Topic == "Revocation" && (strings.Contains(c.Text, "host current") || strings.Contains(c.Text, "host late")) {
			t.Errorf("%+v", c)
		}
	}
}

// The address in certificates must answer with the lists of the server.
func TestPublishedLists(t *testing.T) {
	var answer atomic.Pointer[http.HandlerFunc]
	set := func(f http.HandlerFunc) { answer.Store(&f) }
	set(http.NotFound)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	defer proxy.Close()
	w := world{apitest.Start(t, func(cfg *server.Config) { cfg.Revocation.URL = proxy.URL })}
	w.eventually(t, 0, "Revocation", check.Failed, "cannot be read from here where certificates say (revocation.url): reading a revocation list: "+proxy.URL+"/")

	api := apitest.Client(t, w.Admin(t)).CoreV1().RESTClient()
	content := func(path string) []byte {
		der, err := api.Get().AbsPath("/apis/inventory.certplane.dev/v1alpha1/revocationlists", strings.TrimSuffix(path, ".crl"), "content").DoRaw(t.Context())
		if err != nil {
			t.Error(err)
		}
		return der
	}
	var kept sync.Map
	set(func(w http.ResponseWriter, r *http.Request) {
		der := content(r.URL.Path)
		kept.Store(r.URL.Path, der)
		_, _ = w.Write(der)
	})
	w.eventually(t, 0, "Revocation", check.OK, "3 revocation lists are current")

	set(func(w http.ResponseWriter, r *http.Request) {
		der, _ := kept.Load(r.URL.Path)
		_, _ = w.Write(der.([]byte))
	})
	client, err := pki.ParseFirst(w.Admin(t).CertData)
	if err != nil {
		t.Fatal(err)
	}
	other := *client // of the same CA
	other.SerialNumber = big.NewInt(4711)
	w.Revoke(t, pki.ReasonSuperseded, time.Now(), &other)
	w.eventually(t, 10*time.Minute, "Revocation", check.Failed, " answers with list ")
	w.eventually(t, 0, "Revocation", check.OK, "3 revocation lists are current") // a proxy may keep it for some minutes

	set(func(w http.ResponseWriter, r *http.Request) {
		kept.Range(func(path, der any) bool {
			if path == r.URL.Path {
				return true
			}
			_, _ = w.Write(der.([]byte))
			return false
		})
	})
	w.eventually(t, 0, "Revocation", check.Failed, "which is not signed by the CA")
}
