package namespace

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestConditions(t *testing.T) {
	before, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	empty := conditions(nil, content{}, before)
	for _, c := range empty {
		if c.Status != corev1.ConditionFalse || c.Reason == "" || c.Message == "" || c.LastTransitionTime != before {
			t.Errorf("of an empty namespace: %+v", c)
		}
	}
	if again := conditions(empty, content{}, now); !cmp.Equal(empty, again) {
		t.Errorf("nothing has changed:\n%s", cmp.Diff(empty, again))
	}

	left := content{
		undiscovered: errors.New("no answer"),
		failed:       []error{errors.New("b"), errors.New("a")},
		objects:      map[schema.GroupResource]int{{Resource: "secrets"}: 2, {Group: "example.com", Resource: "cats"}: 1},
		finalizers:   map[string]int{"example.com/b": 1, "example.com/a": 3},
	}
	got := map[corev1.NamespaceConditionType]string{}
	for _, c := range conditions(empty, left, now) {
		if c.Status == corev1.ConditionTrue && c.LastTransitionTime == now {
			got[c.Type] = c.Reason + ": " + c.Message
		}
	}
	want := map[corev1.NamespaceConditionType]string{
		"NamespaceDeletionDiscoveryFailure": "DiscoveryFailed: Discovery failed for some groups: no answer",
		"NamespaceDeletionContentFailure":   "ContentDeletionFailed: Failed to delete all resource types, 2 remaining: a, b",
		"NamespaceContentRemaining":         "SomeResourcesRemain: Some resources are remaining: cats.example.com has 1 resource instances, secrets. has 2 resource instances",
		"NamespaceFinalizersRemaining":      "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/a in 3 resource instances, example.com/b in 1 resource instances",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("true conditions (-want +got):\n%s", diff)
	}
}

func TestNextLook(t *testing.T) {
	deleted := metav1.Unix(1000, 0)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}}
	for after, want := range map[time.Duration]time.Duration{
		0: 200 * time.Millisecond, 20 * time.Second: 5 * time.Second, time.Hour: 15 * time.Second, -time.Hour: 200 * time.Millisecond,
	} {
		if got := nextLook(namespace, metav1.NewTime(deleted.Add(after))); got != want {
			t.Errorf("after %v: in %v, want %v", after, got, want)
		}
	}
}
