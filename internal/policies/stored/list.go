package stored

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/worker"
)

// Stored is a stored request, and its object.
type Stored struct {
	request.Request
	Object client.Object
}

// List returns some stored requests of a kind, at most limit. If the API does not
// have the kind, there are none.
func List(ctx context.Context, api dynamic.Interface, lookup worker.Lookup, kind v1alpha1.RequestKind, limit int64) ([]Stored, error) {
	k := requestkind.Named(kind)
	if k == nil {
		return nil, nil
	}
	resource := worker.Resource{Group: k.Resource.Group, Versions: k.Versions, Name: k.Resource.Resource, Lookup: lookup}
	version, err := resource.Version(ctx)
	if version == "" || err != nil {
		return nil, err
	}
	list, err := api.Resource(k.Resource.WithVersion(version)).List(ctx, metav1.ListOptions{Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", k.Resource.Resource, err)
	}
	var found []Stored
	for i := range list.Items {
		object, err := decode(k, &list.Items[i])
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot read a request", "kind", k.Name, "namespace", list.Items[i].GetNamespace(), "name", list.Items[i].GetName())
			continue
		}
		if r, ok := request.From(object); ok {
			found = append(found, Stored{r, object})
		}
	}
	return found, nil
}
