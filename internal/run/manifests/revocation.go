package manifests

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/frontend/revocationwebhook"
	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
)

// The webhook that refuses revoked certificates runs on each host of the control plane, in a
// namespace of its own: it uses the network of the host, which the namespace of the
// controllers forbids.
const (
	revocationNamespace = "certplane-revocation"
	revocationName      = "certplane-revocation-webhook"
	// filesName is the ConfigMap with the files for kube-apiserver, which are in
	// kubernetesDir on its hosts.
	filesName         = "certplane-revocation-kube-apiserver"
	authorizationFile = "certplane-authorization.yaml"
	kubeconfigFile    = "certplane-revocation.kubeconfig"
	webhookCAFile     = "certplane-revocation-ca.crt"
	kubernetesDir     = "/etc/kubernetes"
)

// The addresses of the webhook and of its probes, for this host only. Port 9444 and the next
// ones belong to no component of Kubernetes.
const (
	revocationListen  = "127.0.0.1:9444"
	revocationHealth  = "127.0.0.1:9445"
	revocationMetrics = "127.0.0.1:9446"
)

// revocationSettings returns the configuration of the webhook's process. It runs no
// controllers, and needs no lease: each process follows Revocations by itself.
func revocationSettings(given cluster.Config) (cluster.Config, error) {
	cfg := cluster.DefaultConfig()
	cfg.Namespace = revocationNamespace
	if given.Namespace != rights.ClusterNamespace {
		cfg.Namespace = given.Namespace
	}
	cfg.Controllers = []string{}
	cfg.UseServiceAccountCredentials, cfg.LeaderElection.LeaderElect, cfg.Webhook.Serve = false, false, "Never"
	cfg.Health.BindAddress, cfg.Metrics.BindAddress = revocationHealth, revocationMetrics
	cfg.Logging = given.Logging
	if cfg.Revocation.Webhook = given.Revocation.Webhook; !given.ServesRevocations() {
		cfg.Revocation.Webhook.Listen = revocationListen
	}
	if cfg.Revocation.Webhook.ClientCAFile != "" {
		return cfg, errors.New("revocation.webhook.clientCAFile: kube-apiserver reaches the webhook at its own host, without a certificate: remove this")
	}
	if strings.HasPrefix(cfg.Namespace, "kube-") {
		return cfg, fmt.Errorf("namespace: %s is Kubernetes' own: choose another", cfg.Namespace)
	}
	return cfg, cfg.Validate()
}

// listsService is the name of the Service of revocation lists, listsPort that of its port in
// containers.
const (
	listsService = "certplane-revocation-lists"
	listsPort    = "lists"
)

// listsObjects are how programs in the cluster fetch revocation lists.
func listsObjects(cfg cluster.Config) []runtime.Object {
	if !cfg.Revocation.ServesLists() {
		return nil
	}
	return []runtime.Object{&corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(cfg.Namespace, listsService),
		Spec: corev1.ServiceSpec{
			Selector: labels(),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString(listsPort)}},
		},
	}}
}

// WriteRevocation writes, as YAML, the objects that install the webhook that refuses revoked
// certificates, and a ConfigMap with the files that kube-apiserver needs to ask it.
func WriteRevocation(out io.Writer, cfg Config) error {
	if cfg.Image == "" {
		return errNoImage
	}
	settings, err := revocationSettings(cfg.Controllers)
	if err != nil {
		return err
	}
	size, err := sizeOf(cfg)
	if err != nil {
		return err
	}
	text, err := configFile(settings)
	if err != nil {
		return err
	}
	definition, err := crds.Read("revocations.certplane.dev")
	if err != nil {
		return err
	}
	home := namespace(settings.Namespace)
	for mode := range home.Labels {
		if strings.HasPrefix(mode, "pod-security.kubernetes.io/") {
			home.Labels[mode] = "privileged" // because of the host's network
		}
	}
	files := configMap(settings.Namespace, "")
	files.Name, files.Data = filesName, map[string]string{
		authorizationFile: authorizationConfiguration,
		kubeconfigFile:    fmt.Sprintf(revocationKubeconfig, reachedAt(settings.Revocation.Webhook)+revocationwebhook.Path),
	}
	objects := append([]runtime.Object{home, definition}, accountObjects(settings)...)
	objects = append(objects, configMap(settings.Namespace, text), daemonSet(cfg.Image, size, settings, text), files)
	return write(out, fmt.Sprintf(revocationHeading, settings.Namespace, filesName, authorizationFile, kubeconfigFile, kubernetesDir, revocationName, webhookCAFile), objects)
}

// reachedAt is where kube-apiserver reaches the webhook on its own host.
func reachedAt(c frontend.RevocationWebhookConfig) string {
	host, port, _ := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// daemonSet runs the webhook beside each kube-apiserver of the control plane.
func daemonSet(image string, size size, cfg cluster.Config, text string) *appsv1.DaemonSet {
	made := deployment(image, size, cfg, text)
	pod := &made.Spec.Template.Spec
	pod.HostNetwork, pod.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	pod.PriorityClassName = "system-node-critical"
	pod.NodeSelector["node-role.kubernetes.io/control-plane"] = ""
	pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.TopologySpreadConstraints = nil
	container := &pod.Containers[0]
	container.Ports = nil
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		probe.HTTPGet.Host, probe.HTTPGet.Port = "127.0.0.1", intstr.FromInt32(port(cfg.Health.BindAddress))
	}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"},
		ObjectMeta: meta(cfg.Namespace, revocationName),
		Spec: appsv1.DaemonSetSpec{
			Selector: made.Spec.Selector, Template: made.Spec.Template,
			// The new pod can listen only after the former one has ended.
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(1))}},
		},
	}
}

const revocationHeading = `# Made by "certplane manifests --revocation-webhook": a webhook on each host of the control plane,
# with which kube-apiserver refuses the client certificates that Revocations name.
# 1. Apply this, and wait for the Secret with the webhook's CA:
#      kubectl --namespace %[1]s wait --for=create --timeout=2m secret/%[6]s
# 2. Write three files to %[5]s on each host of the control plane:
#      kubectl --namespace %[1]s get configmap %[2]s -o go-template='{{index .data "%[3]s"}}' > %[5]s/%[3]s
#      kubectl --namespace %[1]s get configmap %[2]s -o go-template='{{index .data "%[4]s"}}' > %[5]s/%[4]s
#      kubectl --namespace %[1]s get secret %[6]s -o go-template='{{index .data "ca.crt" | base64decode}}' > %[5]s/%[7]s
#    If kube-apiserver has other authorizers than Node and RBAC, add them to %[3]s.
# 3. On one host after the other, let the pod of kube-apiserver see the three files (hostPath), and replace
#    --authorization-mode by --authorization-config=%[5]s/%[3]s.
# Requests of system:masters and requests with tokens are not asked about. A request that has begun goes on. While the
# webhook does not answer, requests are allowed as without it: kube-apiserver counts them in
# apiserver_authorization_webhook_evaluations_fail_open_total. With failurePolicy: Deny they are refused, and with
# them those of kubelets. Write %[7]s again when the CA in the Secret has changed: it lives for ten years.
`

// authorizationConfiguration makes kube-apiserver ask the webhook before all others, and only
// about users of client certificates.
const authorizationConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: certplane-revocation
  webhook:
    timeout: 1s
    failurePolicy: NoOpinion
    # Nothing is cached, but these must be set. The webhook allows nothing.
    authorizedTTL: 1s
    unauthorizedTTL: 1s
    cacheAuthorizedRequests: false
    cacheUnauthorizedRequests: false
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: ` + kubernetesDir + "/" + kubeconfigFile + `
    matchConditions:
    - expression: >-
        '` + revocationwebhook.CredentialID + `' in request.extra &&
        request.extra['` + revocationwebhook.CredentialID + `'].exists(id, id.startsWith('` + revocationwebhook.Certificate + `'))
- type: Node
  name: node
- type: RBAC
  name: rbac
`

const revocationKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: webhook
  cluster:
    server: %s
    certificate-authority: ` + kubernetesDir + "/" + webhookCAFile + `
users:
- name: kube-apiserver
  user: {}
contexts:
- name: webhook
  context: {cluster: webhook, user: kube-apiserver}
current-context: webhook
`
