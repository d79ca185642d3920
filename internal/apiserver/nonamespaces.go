package apiserver

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// withoutNamespaces gives shared an informer of Namespaces that knows of none:
// there are none yet, and a real informer would never get ready.
func withoutNamespaces(shared informers.SharedInformerFactory) {
	shared.InformerFor(&corev1.Namespace{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(noNamespaces{}, &corev1.Namespace{}, 0, cache.Indexers{})
	})
}

type noNamespaces struct{}

func (noNamespaces) List(metav1.ListOptions) (runtime.Object, error) {
	return &corev1.NamespaceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (noNamespaces) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

func (noNamespaces) IsWatchListSemanticsUnSupported() bool { return true }
