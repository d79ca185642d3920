package node

import (
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/certplane/certplane/internal/api/podrefs"
)

// byUse indexes pods by the objects that their node may read because of them.
const byUse = "certplane.dev/node-use"

// FromInformers returns the pods in the pod informer of shared. It must be
// called once, before the informers start.
func FromInformers(shared informers.SharedInformerFactory) Pods {
	pods := shared.Core().V1().Pods().Informer()
	// Adding an index fails only if the informer is already running.
	utilruntime.Must(pods.AddIndexers(cache.Indexers{byUse: indexUses}))
	return informed{pods.GetIndexer()}
}

// informed keeps only the index: the pods belong to the informer.
type informed struct{ pods cache.Indexer }

func (p informed) Uses(node string, kind Kind, namespace, name string) bool {
	users, err := p.pods.IndexKeys(byUse, useKey(node, kind, namespace, name))
	return err == nil && len(users) > 0
}

func (p informed) Runs(node, namespace, name string) bool {
	obj, found, err := p.pods.GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return false
	}
	pod, ok := obj.(*corev1.Pod)
	return ok && node != "" && pod.Spec.NodeName == node
}

// indexUses returns the objects that the node of a pod may read because of it.
func indexUses(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil, nil
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return nil, nil
	}
	var keys []string
	add := func(kind Kind, name string) {
		keys = append(keys, useKey(pod.Spec.NodeName, kind, pod.Namespace, name))
	}
	if account := pod.Spec.ServiceAccountName; account != "" {
		add(ServiceAccount, account)
	}
	for name := range podrefs.Secrets(pod) {
		add(Secret, name)
	}
	for name := range podrefs.ConfigMaps(pod) {
		add(ConfigMap, name)
	}
	return keys, nil
}

// useKey is unambiguous: the name of a node, a namespace or an object never
// contains a slash.
func useKey(node string, kind Kind, namespace, name string) string {
	return node + "/" + string(kind) + "/" + namespace + "/" + name
}
