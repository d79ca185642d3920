package admissionregistration

import (
	"context"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/api/admissionregistration"
)

// status is validatingadmissionpolicies/status.
type status struct {
	store *genericregistry.Store
}

var (
	_ rest.Patcher             = status{}
	_ rest.ResetFieldsStrategy = status{}
	_ rest.TableConvertor      = status{}
)

func newStatus(store *genericregistry.Store) status {
	onStatus := *store
	strategy := statusStrategy{store.UpdateStrategy.(strategy)}
	onStatus.UpdateStrategy, onStatus.ResetFieldsStrategy = strategy, strategy
	return status{store: &onStatus}
}

func (s status) New() runtime.Object { return s.store.New() }

// Destroy does nothing: the store belongs to the resource itself.
func (status) Destroy() {}

func (s status) Get(ctx context.Context, name string, opts *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, opts)
}

// Update never creates.
func (s status) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, opts *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, create, update, false, opts)
}

func (s status) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

func (s status) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, obj, options)
}

// statusStrategy keeps all but the status.
type statusStrategy struct {
	strategy
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	policy, stored := obj.(*v1.ValidatingAdmissionPolicy), old.(*v1.ValidatingAdmissionPolicy)
	policy.Spec = stored.Spec
	metav1.ResetObjectMetaForStatus(&policy.ObjectMeta, &stored.ObjectMeta)
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return admissionregistration.ValidateStatus(&obj.(*v1.ValidatingAdmissionPolicy).Status)
}

func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1.SchemeGroupVersion.String()): fieldpath.NewSet(
			fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata")),
	}
}
