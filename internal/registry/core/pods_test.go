package core_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: named(name),
		Spec: corev1.PodSpec{
			NodeName:   "node-1",
			Containers: []corev1.Container{{Name: "c", Image: "example.com:5000/c"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestPods(t *testing.T) {
	w := start(t)
	pods := w.core.Pods("default")
	for _, tt := range []struct {
		reason string
		edit   func(*corev1.PodSpec)
		want   string
	}{
		{"nothing to run", func(s *corev1.PodSpec) { s.Containers = nil }, "422 spec.containers: FieldValueRequired"},
		{"no image", func(s *corev1.PodSpec) { s.Containers[0].Image = "" }, "422 spec.containers[0].image: FieldValueRequired"},
		{"a name twice", func(s *corev1.PodSpec) { s.InitContainers = s.Containers }, "422 spec.initContainers[0].name: FieldValueDuplicate"},
		{"no account can be called so", func(s *corev1.PodSpec) { s.ServiceAccountName = "A" }, "422 spec.serviceAccountName: FieldValueInvalid"},
		{"no node can be called so", func(s *corev1.PodSpec) { s.NodeName = "a/b" }, "422 spec.nodeName: FieldValueInvalid"},
		{"no such policy", func(s *corev1.PodSpec) { s.RestartPolicy = "Sometimes" }, "422 spec.restartPolicy: FieldValueNotSupported"},
	} {
		pod := newPod("a")
		tt.edit(&pod.Spec)
		if _, err := pods.Create(t.Context(), pod, create); causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}

	pod, err := pods.Create(t.Context(), newPod("a"), create)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodPending || pod.Status.QOSClass != corev1.PodQOSBestEffort || pod.Generation != 1 ||
		pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("created: %+v", pod)
	}

	if pod.Spec.ServiceAccountName != "default" {
		t.Errorf("the pod's account is %q", pod.Spec.ServiceAccountName)
	}
	mirror := newPod("mirror")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	if mirror, err := pods.Create(t.Context(), mirror, create); err != nil || mirror.Spec.ServiceAccountName != "" {
		t.Errorf("what a node shows: %+v, %v", mirror, err)
	}
	if err := pods.Delete(t.Context(), "mirror", remove); err != nil {
		t.Fatal(err)
	}

	pod.Status.Phase, pod.Spec.NodeName = corev1.PodRunning, "node-2"
	pod, err = pods.UpdateStatus(t.Context(), pod, update)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != "node-1" {
		t.Errorf("through /status: phase %s on %s", pod.Status.Phase, pod.Spec.NodeName)
	}

	for selector, want := range map[string]int{
		"spec.nodeName=node-1": 1, "spec.nodeName=node-2": 0, "status.phase=Running": 1, "spec.serviceAccountName=x": 0,
	} {
		list, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("selecting %s: %d pods, %v, want %d", selector, len(list.Items), err, want)
		}
	}

	got := apitest.Table(t, w.Admin(t), "/api/v1/namespaces/default/pods")
	if !strings.HasPrefix(got, "Name|Ready|Status|Restarts|Age\na|0/1|Running|0|") {
		t.Errorf("table:\n%s", got)
	}
	// There is no node that would have to end it first.
	if err := pods.Delete(t.Context(), "a", remove); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(t.Context(), "a", get); causes(err) != `404 pods "a" not found` {
		t.Errorf("after its deletion: %s", causes(err))
	}
}

func TestPodUpdates(t *testing.T) {
	w := start(t)
	pods := w.core.Pods("default")
	stored := newPod("a")
	stored.Spec.ActiveDeadlineSeconds = ptr.To[int64](100)
	stored.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-1)
	stored.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	stored.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/a"}, {Name: "example.com/b"}}
	stored, err := pods.Create(t.Context(), stored, create)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		edit   func(*corev1.PodSpec)
		want   string
	}{
		{"another image", func(s *corev1.PodSpec) { s.Containers[0].Image = "example.com/other" }, "<nil>"},
		{"no image", func(s *corev1.PodSpec) { s.Containers[0].Image = "" }, "422 spec.containers[0].image: FieldValueRequired"},
		{"an earlier end", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](99) }, "<nil>"},
		{"a later end", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](101) }, "422 spec.activeDeadlineSeconds: FieldValueInvalid"},
		{"no end", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = nil }, "422 spec.activeDeadlineSeconds: FieldValueInvalid"},
		{"a negative grace period becomes 1", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr.To[int64](1) }, "<nil>"},
		{"another grace period", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr.To[int64](5) }, "422 spec: FieldValueForbidden"},
		{"one more toleration", func(s *corev1.PodSpec) {
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "l", Operator: corev1.TolerationOpExists})
		}, "<nil>"},
		{"one toleration less", func(s *corev1.PodSpec) { s.Tolerations = nil }, "422 spec.tolerations: FieldValueForbidden"},
		{"one gate less", func(s *corev1.PodSpec) { s.SchedulingGates = s.SchedulingGates[1:] }, "<nil>"},
		{"another gate", func(s *corev1.PodSpec) { s.SchedulingGates[0].Name = "example.com/c" }, "422 spec.schedulingGates[0].name: FieldValueForbidden"},
		{"another node", func(s *corev1.PodSpec) { s.NodeName = "node-2" }, "422 spec: FieldValueForbidden"},
		{"another account", func(s *corev1.PodSpec) { s.ServiceAccountName = "b" }, "422 spec: FieldValueForbidden"},
		{"one more container", func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "d", Image: "d"})
		}, "422 spec: FieldValueForbidden"},
		{"other resources", func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, "422 spec: FieldValueForbidden"},
	} {
		pod := stored.DeepCopy()
		pod.ResourceVersion = ""
		tt.edit(&pod.Spec)
		_, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}
}
