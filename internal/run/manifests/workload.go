package manifests

import (
	"crypto/sha256"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/run/cluster"
)

// The paths of the files in a pod, and the user that reads them: the one that
// images without a shell have for that.
const (
	configDir = "/etc/certplane/config"
	caDir     = "/etc/certplane/ca"
	acmeDir   = "/etc/certplane/acme"
	nonRoot   = 65532
)

// webhookPort is the name of the container's port that the webhook's Service
// leads to.
const webhookPort = "webhook"

func namespace(namespace string) *corev1.Namespace {
	object := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: meta("", namespace)}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		object.Labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	return object
}

func configMap(namespace, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta(namespace, name),
		Data:       map[string]string{"config.yaml": text},
	}
}

// deployment runs the processes: one works, the others wait for the lease.
func deployment(image string, size size, cfg cluster.Config, text string) *appsv1.Deployment {
	template := meta("", "")
	// A new configuration means new pods.
	template.Annotations = map[string]string{"certplane.dev/config-sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta(cfg.Namespace, name),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(size.replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Template: corev1.PodTemplateSpec{ObjectMeta: template, Spec: pod(image, size, cfg, text)},
		},
	}
}

func pod(image string, size size, cfg cluster.Config, text string) corev1.PodSpec {
	volumes, mounts := files(text)
	container := container(image, size, cfg)
	container.VolumeMounts = mounts
	if cfg.ServesWebhook() {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: webhookPort, ContainerPort: port(cfg.Webhook.BindAddress)})
		container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drainSeconds}}}
	}
	if cfg.Revocation.ServesLists() {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: listsPort, ContainerPort: port(cfg.Revocation.Listen)})
	}
	if cfg.ServesACME() {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: acmePort, ContainerPort: port(cfg.ACMEServer.Listen)})
		if cfg.ACMEServer.ServesRoots() {
			container.Ports = append(container.Ports, corev1.ContainerPort{Name: rootsPort, ContainerPort: port(cfg.ACMEServer.RootsListen)})
		}
		container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drainSeconds}}}
	}
	return corev1.PodSpec{
		ServiceAccountName: name,
		// Without certificates no node can join, so the pods also run when the
		// cluster is full or has only its control plane yet.
		PriorityClassName:         "system-cluster-critical",
		Tolerations:               []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		NodeSelector:              map[string]string{corev1.LabelOSStable: "linux"},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{spread(corev1.LabelHostname), spread(corev1.LabelTopologyZone)},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			RunAsUser:      ptr.To(int64(nonRoot)),
			RunAsGroup:     ptr.To(int64(nonRoot)),
			FSGroup:        ptr.To(int64(nonRoot)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{container},
		Volumes:    volumes,
	}
}

// spread spreads the pods of one version, as far as possible.
func spread(over string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew:           1,
		TopologyKey:       over,
		WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector:     &metav1.LabelSelector{MatchLabels: labels()},
		MatchLabelKeys:    []string{appsv1.DefaultDeploymentUniqueLabelKey},
	}
}

func container(image string, size size, cfg cluster.Config) corev1.Container {
	return corev1.Container{
		Name:  "controllers",
		Image: image,
		Args:  []string{"controllers", "--config=" + configDir + "/config.yaml"},
		Env:   size.env(),
		Ports: []corev1.ContainerPort{
			{Name: "metrics", ContainerPort: port(cfg.Metrics.BindAddress)},
			{Name: "health", ContainerPort: port(cfg.Health.BindAddress)},
		},
		LivenessProbe:  probe("/healthz"),
		ReadinessProbe: probe("/readyz"),
		Resources:      size.resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func probe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")}},
		TimeoutSeconds: 5,
	}
}

// files returns the volumes with the configuration and, if it names their files, the CA and
// the certificate of the ACME server. Each is a separate folder, so that changes reach the
// pod.
func files(text string) ([]corev1.Volume, []corev1.VolumeMount) {
	volumes := []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}}
	mounts := []corev1.VolumeMount{{Name: "config", MountPath: configDir, ReadOnly: true}}
	for _, from := range []struct{ name, dir, secret string }{{"ca", caDir, caSecret}, {"acme", acmeDir, acmeSecret}} {
		if !strings.Contains(text, from.dir+"/") {
			continue
		}
		volumes = append(volumes, corev1.Volume{Name: from.name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: from.secret, DefaultMode: ptr.To(int32(0o440))},
		}})
		mounts = append(mounts, corev1.VolumeMount{Name: from.name, MountPath: from.dir, ReadOnly: true})
	}
	return volumes, mounts
}

func disruptionBudget(namespace string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: meta(namespace, name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: labels()},
			// Broken pods do not keep a node from being drained.
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

func service(cfg cluster.Config) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(cfg.Namespace, name),
		Spec: corev1.ServiceSpec{
			Selector: labels(),
			Ports:    []corev1.ServicePort{{Name: "metrics", Port: port(cfg.Metrics.BindAddress), TargetPort: intstr.FromString("metrics")}},
		},
	}
}
