package node

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
)

// parse parses "verb resource[/subresource] namespace/name" as a request of
// node n.
func parse(t *testing.T, text string) authorizer.AttributesRecord {
	t.Helper()
	words := strings.Fields(text)
	if len(words) != 3 {
		t.Fatalf("%q is not a request", text)
	}
	request := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}},
		Verb: words[0], APIVersion: "v1", ResourceRequest: true,
	}
	request.Resource, request.Subresource, _ = strings.Cut(words[1], "/")
	request.Namespace, request.Name, _ = strings.Cut(words[2], "/")
	return request
}

func TestFromInformers(t *testing.T) {
	shared := informers.NewSharedInformerFactory(nil, 0)
	pods := FromInformers(shared)
	store := shared.Core().V1().Pods().Informer().GetIndexer()
	bound := pod("bound", "n")
	mirror := pod("mirror", "n")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	for _, p := range []*corev1.Pod{bound, pod("waiting", ""), pod("elsewhere", "m"), mirror} {
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
	}

	for _, tt := range []struct {
		reason     string
		node       string
		kind       Kind
		name       string
		namespaces string
		want       bool
	}{
		{"the node of a pod", "n", Secret, "bound", "ns", true},
		{"its ConfigMap", "n", ConfigMap, "bound", "ns", true},
		{"its account", "n", ServiceAccount, "bound", "ns", true},
		{"another node", "m", Secret, "bound", "ns", false},
		{"another namespace", "n", Secret, "bound", "other", false},
		{"another kind", "n", ServiceAccount, "bound-config", "ns", false},
		{"a pod that nobody runs yet", "n", Secret, "waiting", "ns", false},
		{"a pod that nobody runs yet, asked by nobody", "", Secret, "waiting", "ns", false},
		{"a pod that the node made itself", "n", Secret, "mirror", "ns", false},
		{"the account of such a pod", "n", ServiceAccount, "mirror", "ns", false},
		{"a node that imitates an index key", "n/secrets/ns", Secret, "bound", "ns", false},
	} {
		if got := pods.Uses(tt.node, tt.kind, tt.namespaces, tt.name); got != tt.want {
			t.Errorf("%s: %v", tt.reason, got)
		}
	}
	for name, want := range map[string]bool{"bound": true, "mirror": true, "elsewhere": false, "waiting": false, "nosuch": false} {
		if got := pods.Runs("n", "ns", name); got != want {
			t.Errorf("node n runs %s: %v", name, got)
		}
	}
	if pods.Runs("", "ns", "waiting") {
		t.Error("a pod without a node runs on a node without a name")
	}

	gone := bound.DeepCopy()
	gone.Spec.NodeName = "m"
	if err := store.Update(gone); err != nil {
		t.Fatal(err)
	}
	if pods.Uses("n", Secret, "ns", "bound") {
		t.Error("a node still reads the Secret of a pod that has left")
	}
}

// pod returns a pod that refers to objects of its own name.
func pod(name, node string) *corev1.Pod {
	local := corev1.LocalObjectReference{Name: name}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: name, ImagePullSecrets: []corev1.LocalObjectReference{local},
			Volumes: []corev1.Volume{{Name: fmt.Sprintf("v-%s", name), VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local},
			}}},
		},
	}
}
