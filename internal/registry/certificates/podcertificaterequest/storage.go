package podcertificaterequest

import (
	"context"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api/certificates"
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
	Main   *registry.Store
	Status *StatusREST
}

// New returns the endpoints, which share one store.
func New(cfg Config) (Endpoints, error) {
	base := strategy{ObjectTyper: cfg.Typer, NameGenerator: names.SimpleNameGenerator, maySign: cfg.MaySign, now: cfg.Now}
	store := newStore(base)
	options := &generic.StoreOptions{RESTOptions: cfg.RESTOptions, AttrFunc: attributes}
	if err := store.CompleteWithOptions(options); err != nil {
		return Endpoints{}, fmt.Errorf("completing the store of PodCertificateRequests: %w", err)
	}
	status := *store
	status.UpdateStrategy = statusStrategy{base}
	status.ResetFieldsStrategy = statusStrategy{base}
	return Endpoints{Main: store, Status: &StatusREST{&status}}, nil
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

// StatusREST is the subresource /status, through which signers answer.
type StatusREST struct{ store *registry.Store }

var (
	_ rest.Patcher             = &StatusREST{}
	_ rest.TableConvertor      = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
)

// New implements rest.Storage.
func (*StatusREST) New() runtime.Object { return &podRequest{} }

// Destroy does nothing: the resource closes the connection to the store.
func (*StatusREST) Destroy() {}

// Get implements rest.Getter.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates a request, not even by
// server-side apply.
func (r *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, onCreate rest.ValidateObjectFunc,
	onUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, onCreate, onUpdate, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (r *StatusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}
