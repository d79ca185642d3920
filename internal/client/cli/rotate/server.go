package rotate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

const (
	reloadPoll    = 200 * time.Millisecond
	reloadTimeout = time.Minute
	fieldManager  = "certplane-encryption"
)

// hashMetric is the metric that shows which file the server uses.
const hashMetric = "apiserver_encryption_config_controller_last_config_info{"

// API is a Server that is reached through its API. It reads only the names of
// the objects that are stored again, never their content.
type API struct {
	discovery *discovery.DiscoveryClient
	objects   metadata.Interface
}

var _ Server = (*API)(nil)

// NewAPI returns the server behind cfg, which must be allowed to read /metrics
// and to list and patch all encrypted resources.
func NewAPI(cfg *rest.Config) (*API, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // the server has its own limits
	discovery, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	objects, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return &API{discovery, objects}, nil
}

// AwaitFile polls the server's metrics.
func (a *API) AwaitFile(ctx context.Context, hash string) error {
	err := wait.PollUntilContextTimeout(ctx, reloadPoll, reloadTimeout, true, func(ctx context.Context) (bool, error) {
		metrics, err := a.discovery.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		return uses(metrics, hash), err
	})
	if ctx.Err() == nil && wait.Interrupted(err) {
		return fmt.Errorf("it uses another one after %v; is this the file in its configuration (encryption.configFile)?", reloadTimeout)
	}
	return err
}

func uses(metrics []byte, hash string) bool {
	for line := range bytes.Lines(metrics) {
		if bytes.HasPrefix(line, []byte(hashMetric)) && bytes.Contains(line, []byte(`,hash="`+hash+`"`)) {
			return true
		}
	}
	return false
}

// StoreAgain sends an empty patch for each object, which makes the server store
// it with the current encrypting key if it was stored with another.
func (a *API) StoreAgain(ctx context.Context, covered []string) (int, error) {
	resources, err := a.resolve(covered)
	if err != nil {
		return 0, err
	}
	count := 0
	for _, resource := range resources {
		n, err := a.storeAgain(ctx, resource)
		if err != nil {
			return count, fmt.Errorf("%s: %w", resource.GroupResource(), err)
		}
		count += n
	}
	return count, nil
}

func (a *API) storeAgain(ctx context.Context, resource schema.GroupVersionResource) (int, error) {
	count := 0
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return a.objects.Resource(resource).List(ctx, opts)
	}
	err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		object := obj.(*metav1.PartialObjectMetadata)
		_, err := a.objects.Resource(resource).Namespace(object.Namespace).Patch(
			ctx, object.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: fieldManager})
		if apierrors.IsNotFound(err) {
			return nil // deleted meanwhile
		}
		count++
		return err
	})
	return count, err
}

// resolve returns the resources that entries such as "secrets", "*.example.com"
// or "*.*" stand for.
func (a *API) resolve(covered []string) ([]schema.GroupVersionResource, error) {
	served, err := a.discovery.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("listing what the server stores: %w", err)
	}
	var found []schema.GroupVersionResource
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			gvr := version.WithResource(resource.Name)
			stored := slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "patch")
			if stored && slices.ContainsFunc(covered, func(entry string) bool { return covers(entry, gvr.GroupResource()) }) {
				found = append(found, gvr)
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the server stores nothing of what the keys are for")
	}
	return found, nil
}

// covers reports whether an entry covers a resource, by the rules of the
// EncryptionConfiguration.
func covers(entry string, resource schema.GroupResource) bool {
	pattern := schema.ParseGroupResource(entry)
	if pattern.Resource == "*" && pattern.Group == "*" {
		return true
	}
	return pattern.Group == resource.Group && (pattern.Resource == "*" || pattern.Resource == resource.Resource)
}
