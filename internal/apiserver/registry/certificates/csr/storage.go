package csr

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
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
	// Durations lets clients request a duration (feature CSRDuration).
	Durations bool
	// Register registers the counters of requested durations.
	Register Register
	// Now is used for the times of conditions and for ages.
	Now func() time.Time
}

// Endpoints are the resource and its subresources.
type Endpoints struct {
	Main *REST
	// Status is the subresource /status, through which signers answer.
	Status kind.Subresource
	// Approval is the subresource /approval, through which approvers decide.
	Approval kind.Part
}

// New returns the endpoints, which share one store.
func New(cfg Config) (Endpoints, error) {
	counters, err := newDurationCounters(cfg.Register)
	if err != nil {
		return Endpoints{}, err
	}
	base := strategy{
		ObjectTyper:   cfg.Typer,
		NameGenerator: names.SimpleNameGenerator,
		durations:     cfg.Durations,
		now:           cfg.Now,
	}
	store := newStore(base)
	options := &generic.StoreOptions{RESTOptions: cfg.RESTOptions, AttrFunc: attributes}
	if err := store.CompleteWithOptions(options); err != nil {
		return Endpoints{}, fmt.Errorf("completing the store of CertificateSigningRequests: %w", err)
	}

	status := kind.Subresource{Part: kind.NewPart(store, statusStrategy{base})}
	status.Store.BeginUpdate = counters.beginStatusUpdate
	return Endpoints{Main: &REST{store}, Status: status, Approval: kind.NewPart(store, approvalStrategy{base})}, nil
}

func newStore(base strategy) *registry.Store {
	resource := certificatesv1.Resource("certificatesigningrequests")
	return &registry.Store{
		NewFunc:                   func() runtime.Object { return &certificatesv1.CertificateSigningRequest{} },
		NewListFunc:               func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: certificatesv1.Resource("certificatesigningrequest"),
		CreateStrategy:            base,
		UpdateStrategy:            base,
		DeleteStrategy:            base,
		ResetFieldsStrategy:       base,
		TableConvertor:            table{now: base.now, other: rest.NewDefaultTableConvertor(resource)},
	}
}

// attributes returns the values for label and field selectors.
func attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil, nil, fmt.Errorf("not a CertificateSigningRequest: %T", obj)
	}
	return csr.Labels, certificates.SelectableFields(csr), nil
}

// REST is the resource certificatesigningrequests.
type REST struct{ *registry.Store }

var (
	_ rest.StandardStorage    = &REST{}
	_ rest.ShortNamesProvider = &REST{}
)

// Create implements rest.Creater.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return kind.Create(ctx, r.Store, obj, validate, options)
}

// ShortNames implements rest.ShortNamesProvider.
func (*REST) ShortNames() []string { return []string{"csr"} }
