package incluster

import (
	"context"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// port is where the pod listens, and the port of its Service.
const port = 8089

// containerName is the name of the only container of the pod.
const containerName = "acmesolver"

// ensurePod returns the pod of a challenge. Pods that have ended, as by an
// eviction, are replaced.
func (s *Solver) ensurePod(ctx context.Context, ch *acmev1.Challenge) (*corev1.Pod, error) {
	found, err := s.owned(ctx, ch, podKind)
	if err != nil {
		return nil, err
	}
	var live, ended []client.Object
	for _, pod := range found {
		if hasEnded(pod.(*corev1.Pod)) {
			ended = append(ended, pod)
		} else {
			live = append(live, pod)
		}
	}
	if err := s.delete(ctx, podKind, ended); err != nil {
		return nil, err
	}
	object, err := s.only(ctx, podKind, live)
	if object == nil && err == nil {
		object, err = s.create(ctx, podKind, wantedPod(ch, s.settings))
	}
	if err != nil {
		return nil, err
	}
	return object.(*corev1.Pod), nil
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// wantedPod returns the pod of a challenge.
func wantedPod(ch *acmev1.Challenge, settings Settings) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: ownedBy(ch, settings.ExtraLabels),
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			RestartPolicy:                corev1.RestartPolicyOnFailure,
			NodeSelector:                 map[string]string{corev1.LabelOSStable: string(corev1.Linux)},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   ptr.To(settings.RunAsNonRoot),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container(ch, settings)},
		},
	}
	pod.Annotations = map[string]string{
		"sidecar.istio.io/inject":                        "false",
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
	}
	if settings.RuntimeClassName != "" {
		pod.Spec.RuntimeClassName = ptr.To(settings.RuntimeClassName)
	}
	applyTemplate(pod, podTemplate(ch), identity(ch))
	return pod
}

func container(ch *acmev1.Challenge, settings Settings) corev1.Container {
	return corev1.Container{
		Name:            containerName,
		Image:           settings.SolverImage,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         settings.SolverCommand,
		Args: []string{
			fmt.Sprintf("--listen-port=%d", port),
			"--domain=" + ch.Spec.DNSName,
			"--token=" + ch.Spec.Token,
			"--key=" + ch.Spec.Key,
		},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: quantities(settings.Resources.Requests.CPU, settings.Resources.Requests.Memory),
			Limits:   quantities(settings.Resources.Limits.CPU, settings.Resources.Limits.Memory),
		},
		SecurityContext: &corev1.SecurityContext{
			ReadOnlyRootFilesystem:   ptr.To(true),
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// quantities returns the resources that are not 0.
func quantities(cpu, memory resource.Quantity) corev1.ResourceList {
	list := corev1.ResourceList{}
	if !cpu.IsZero() {
		list[corev1.ResourceCPU] = cpu
	}
	if !memory.IsZero() {
		list[corev1.ResourceMemory] = memory
	}
	return list
}

// podTrouble returns why a pod cannot answer yet, or "" if it can. The text stays the same
// while the node tries the same thing again.
func podTrouble(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		switch {
		case condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue:
			return ""
		case condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse:
			return condition.Reason
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" {
			return stable(waiting.Reason)
		}
	}
	return "it is starting"
}

// stable returns one name for the reasons between which a node alternates.
func stable(reason string) string {
	if reason == "ErrImagePull" {
		return "ImagePullBackOff"
	}
	return reason
}
