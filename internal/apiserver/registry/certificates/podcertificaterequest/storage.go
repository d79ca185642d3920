package podcertificaterequest

import (
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Config has the parts and settings of the endpoints.
type Config struct {
	// RESTOptions configures the store.
	RESTOptions generic.RESTOptionsGetter
	// Typer returns the kinds of objects.
	Typer runtime.ObjectTyper
	// MaySign reports whether a user may answer requests.
	MaySign MaySign
	// Now is the time with which new certificates are compared.
	Now func() time.Time
}

// Endpoints are the resource and its subresource.
type Endpoints struct {
	Main *registry.Store
	// Status is the subresource /status, through which signers answer.
	Status kind.Subresource
}

// New returns the endpoints, which share one store.
func New(cfg Config) (Endpoints, error) {
	base := strategy{ObjectTyper: cfg.Typer, NameGenerator: names.SimpleNameGenerator, maySign: cfg.MaySign, now: cfg.Now}
	store := newStore(base)
	options := &generic.StoreOptions{RESTOptions: cfg.RESTOptions, AttrFunc: attributes}
	if err := store.CompleteWithOptions(options); err != nil {
		return Endpoints{}, fmt.Errorf("completing the store of PodCertificateRequests: %w", err)
	}
	return Endpoints{Main: store, Status: kind.Subresource{Part: kind.NewPart(store, statusStrategy{base})}}, nil
}

func newStore(base strategy) *registry.Store {
	return &registry.Store{
		NewFunc:                   func() runtime.Object { return &podRequest{} },
		NewListFunc:               func() runtime.Object { return &certificatesv1beta1.PodCertificateRequestList{} },
		DefaultQualifiedResource:  certificatesv1beta1.Resource("podcertificaterequests"),
		SingularQualifiedResource: certificatesv1beta1.Resource("podcertificaterequest"),
		CreateStrategy:            base,
		UpdateStrategy:            base,
		DeleteStrategy:            base,
		ResetFieldsStrategy:       base,
		TableConvertor:            newTable(),
	}
}

// attributes returns the values for label and field selectors.
func attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	request, ok := obj.(*podRequest)
	if !ok {
		return nil, nil, fmt.Errorf("not a PodCertificateRequest: %T", obj)
	}
	return request.Labels, certificates.SelectablePodRequestFields(request), nil
}
