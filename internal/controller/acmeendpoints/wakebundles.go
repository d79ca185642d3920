package acmeendpoints

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/process/worker"
)

// followBundles reports changes of trust bundles, in the version that the API has, until
// ctx ends.
func (r *reconciler) followBundles(ctx context.Context) error {
	return worker.TrustBundles(r.Versions).While(ctx, Name+"-roots", "Following the roots of AcmeEndpoints", r.followVersion)
}

func (r *reconciler) followVersion(ctx context.Context, version string) error {
	bundles := &metav1.PartialObjectMetadata{}
	bundles.SetGroupVersionKind(schema.GroupVersionKind{Group: certificatesv1.GroupName, Version: version, Kind: "ClusterTrustBundle"})
	informer, err := r.Bundles.GetInformer(ctx, bundles)
	if err != nil {
		return fmt.Errorf("watching trust bundles: %w", err)
	}
	defer r.Bundles.RemoveInformer(context.WithoutCancel(ctx), bundles)
	tell := func(object any) {
		if name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			r.bundles.Tell(endpointOfBundle(name))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, now any) { tell(now) }, DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("watching trust bundles: %w", err)
	}
	<-ctx.Done()
	return nil
}

// endpointOfBundle returns the endpoint of a bundle, or an empty string for other bundles.
func endpointOfBundle(name string) string {
	if endpoint, is := strings.CutPrefix(name, BundleName("")); is {
		return endpoint
	}
	return ""
}

// whenBundlesChange queues the endpoint of a changed bundle, or all endpoints for a
// signer's bundle.
func (r *reconciler) whenBundlesChange(ctx context.Context, queue worker.Queue) error {
	cancel := r.bundles.Subscribe(func(endpoint string) {
		if endpoint != "" {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: endpoint}})
			return
		}
		r.queueAll(ctx, queue)
	})
	context.AfterFunc(ctx, cancel)
	return nil
}
