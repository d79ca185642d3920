package trustbundle

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/agent/objects"
)

// Reader reads anchors from an API.
type Reader struct {
	bundles *objects.Follower[certificatesv1.ClusterTrustBundle]
}

// NewReader returns a reader that calls changed after each change of a bundle.
// Its watch ends with ctx.
func NewReader(ctx context.Context, discovery discovery.DiscoveryInterface, dynamic dynamic.Interface, changed func()) *Reader {
	return &Reader{bundles: objects.New(ctx, objects.Kind[certificatesv1.ClusterTrustBundle]{
		Resource: "clustertrustbundles",
		Versions: []schema.GroupVersion{certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion},
		Changed:  func(*certificatesv1.ClusterTrustBundle) { changed() },
	}, discovery, dynamic)}
}

// Get returns the anchors that source names. As long as the bundles are not
// known it fails, even for an optional source: a file of trusted anchors is not
// emptied because a server is away.
func (r *Reader) Get(ctx context.Context, source *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	bundles, err := r.bundles.All(ctx)
	if err != nil {
		return nil, err
	}
	return Select(bundles, source)
}
