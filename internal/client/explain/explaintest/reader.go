// Package explaintest has an API for tests of what is explained.
package explaintest

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/explain"
)

// Reader is an API that has ClusterIssuers and no Events, to a caller that may do
// everything.
type Reader struct{ client.Reader }

var _ explain.Reader = Reader{}

// List implements client.Reader.
func (r Reader) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, ok := list.(*eventsv1.EventList); ok {
		return nil
	}
	return r.Reader.List(ctx, list, o...)
}

// Resource implements explain.Reader.
func (Reader) Resource(context.Context, schema.GroupKind) (certmanager.Resource, error) {
	return certmanager.Resource{Version: "v1", Name: "clusterissuers"}, nil
}

// May implements explain.Reader.
func (Reader) May(context.Context, authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	return true, nil
}

// MayI implements explain.Reader.
func (Reader) MayI(context.Context, authorizationv1.ResourceAttributes) (bool, error) {
	return true, nil
}
