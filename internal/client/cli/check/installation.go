package check

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// ofInstallation selects the objects that "certplane manifests" and the chart install.
var ofInstallation = client.MatchingLabels{"app.kubernetes.io/name": "certplane"}

// notInstalled is the cause of problems from pods of certplane that do not run.
const notInstalled = "installation"

// installation checks whether the pods of certplane run, in a cluster.
func installation(ctx context.Context, c *checker) []Check {
	if c.servesCertplane {
		return nil
	}
	list := &appsv1.DeploymentList{}
	if err := c.api.List(ctx, list, ofInstallation); err != nil {
		return unread("deployments.apps in all namespaces", err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	var bad []Check
	for i := range list.Items {
		d := &list.Items[i]
		wanted := ptr.Deref(d.Spec.Replicas, 1)
		if wanted == 0 || d.Status.AvailableReplicas >= wanted {
			continue
		}
		check := Check{Result: Warning, Text: fmt.Sprintf("Deployment %s/%s: %d of %d pods are available%s", d.Namespace, d.Name, d.Status.AvailableReplicas, wanted, c.whyNot(ctx, d))}
		if d.Status.AvailableReplicas == 0 {
			check.Result, check.cause, check.isCause = Failed, notInstalled, true
		}
		check.Next = []string{c.Line("kubectl", "describe", "pods", "-n", d.Namespace, "-l", "app.kubernetes.io/name=certplane")}
		bad = append(bad, check)
	}
	return summed(bad, "all pods of %s are available", print.Number(len(list.Items), "Deployment"))
}

// whyNot returns the reason why pods of the Deployment do not run; empty if unknown.
func (c *checker) whyNot(ctx context.Context, d *appsv1.Deployment) string {
	pods := &corev1.PodList{}
	if d.Spec.Selector == nil || c.api.List(ctx, pods, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)) != nil {
		return ""
	}
	for _, pod := range pods.Items {
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			switch {
			case s.State.Waiting != nil && s.State.Waiting.Reason != "" && s.State.Waiting.Reason != "PodInitializing":
				return fmt.Sprintf(": %s, image %s", s.State.Waiting.Reason, s.Image)
			case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
				return fmt.Sprintf(": %s with exit code %d, image %s", s.State.Terminated.Reason, s.State.Terminated.ExitCode, s.Image)
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return ": " + condition.Message
			}
		}
	}
	return ""
}
