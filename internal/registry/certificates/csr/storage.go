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
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api/certificates"
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
	Main     *REST
	Status   *StatusREST
	Approval *ApprovalREST
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

	status := *store
	status.UpdateStrategy = statusStrategy{base}
	status.ResetFieldsStrategy = statusStrategy{base}
	status.BeginUpdate = counters.beginStatusUpdate

	approval := *store
	approval.UpdateStrategy = approvalStrategy{base}
	approval.ResetFieldsStrategy = approvalStrategy{base}

	return Endpoints{
		Main:     &REST{store},
		Status:   &StatusREST{subresource{&status}},
		Approval: &ApprovalREST{subresource{&approval}},
	}, nil
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

// ShortNames implements rest.ShortNamesProvider.
func (*REST) ShortNames() []string { return []string{"csr"} }

// StatusREST is the subresource /status, through which signers answer.
type StatusREST struct{ subresource }

var (
	_ rest.Patcher        = &StatusREST{}
	_ rest.TableConvertor = &StatusREST{}
)

// ConvertToTable implements rest.TableConvertor.
func (r *StatusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

// ApprovalREST is the subresource /approval, through which approvers decide. It
// has no table.
type ApprovalREST struct{ subresource }

var _ rest.Patcher = &ApprovalREST{}

// subresource gets and updates whole requests.
type subresource struct{ store *registry.Store }

// New implements rest.Storage.
func (subresource) New() runtime.Object { return &certificatesv1.CertificateSigningRequest{} }

// Destroy does nothing: the resource closes the connection to the store.
func (subresource) Destroy() {}

// Get implements rest.Getter.
func (s subresource) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates a request, not even by
// server-side apply.
func (s subresource) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, onCreate rest.ValidateObjectFunc,
	onUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, onCreate, onUpdate, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s subresource) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}
