package core

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

func podTable() kind.Table[corev1.Pod] {
	status := corev1.PodStatus{}.SwaggerDoc()
	return kind.Table[corev1.Pod]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
			kind.Column("Status", "The aggregate status of the containers in this pod."),
			kind.Column("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
			kind.AgeColumn(),
			kind.Wide("IP", status["podIP"]),
			kind.Wide("Node", corev1.PodSpec{}.SwaggerDoc()["nodeName"]),
			kind.Wide("Nominated Node", status["nominatedNodeName"]),
			kind.Wide("Readiness Gates", corev1.PodSpec{}.SwaggerDoc()["readinessGates"]),
		},
		Cells: func(pod *corev1.Pod, now time.Time) []any {
			ready, restarts, restarted := containerCounts(pod)
			return []any{
				pod.Name,
				fmt.Sprintf("%d/%d", ready, len(pod.Spec.Containers)),
				podStatus(pod),
				restartsCell(restarts, restarted, now),
				kind.Age(pod.CreationTimestamp, now),
				orNone(pod.Status.PodIP), orNone(pod.Spec.NodeName), orNone(pod.Status.NominatedNodeName),
				gatesCell(pod),
			}
		},
	}
}

func containerCounts(pod *corev1.Pod) (ready, restarts int, restarted metav1.Time) {
	for _, status := range pod.Status.ContainerStatuses {
		restarts += int(status.RestartCount)
		if status.Ready && status.State.Running != nil {
			ready++
		}
		if ended := status.LastTerminationState.Terminated; ended != nil && restarted.Before(&ended.FinishedAt) {
			restarted = ended.FinishedAt
		}
	}
	return ready, restarts, restarted
}

func restartsCell(restarts int, last metav1.Time, now time.Time) string {
	if restarts == 0 || last.IsZero() {
		return fmt.Sprint(restarts)
	}
	return fmt.Sprintf("%d (%s ago)", restarts, kind.Age(last, now))
}

// podStatus returns the most informative word about a pod: the reason why its
// first unready container is not ready, or the phase.
func podStatus(pod *corev1.Pod) string {
	if !pod.DeletionTimestamp.IsZero() {
		return "Terminating"
	}
	done := 0
	for _, status := range pod.Status.InitContainerStatuses {
		ended := status.State.Terminated
		if ended != nil && ended.ExitCode == 0 {
			done++
			continue
		}
		if reason := stateReason(status.State); reason != "" && reason != "PodInitializing" {
			return "Init:" + reason
		}
		return fmt.Sprintf("Init:%d/%d", done, len(pod.Spec.InitContainers))
	}
	for _, status := range pod.Status.ContainerStatuses {
		if reason := stateReason(status.State); reason != "" {
			return reason
		}
	}
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	return string(pod.Status.Phase)
}

func stateReason(state corev1.ContainerState) string {
	switch {
	case state.Waiting != nil:
		return state.Waiting.Reason
	case state.Terminated == nil:
		return ""
	case state.Terminated.Reason != "":
		return state.Terminated.Reason
	case state.Terminated.Signal != 0:
		return fmt.Sprintf("Signal:%d", state.Terminated.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", state.Terminated.ExitCode)
	}
}

func gatesCell(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	passed := 0
	for _, gate := range pod.Spec.ReadinessGates {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == gate.ConditionType && condition.Status == corev1.ConditionTrue {
				passed++
			}
		}
	}
	return fmt.Sprintf("%d/%d", passed, len(pod.Spec.ReadinessGates))
}
