// Package coordination serves coordination.k8s.io.
package coordination

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/coordination"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Options has the parts and settings of the API group.
type Options struct {
	// RESTOptions configures where objects are stored.
	RESTOptions generic.RESTOptionsGetter
}

// NewAPIGroup returns the resource leases.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	endpoints, err := leases().Open(opts.RESTOptions)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	group := kind.NewGroup(coordinationv1.GroupName)
	group.VersionedResourcesStorageMap[coordinationv1.SchemeGroupVersion.Version] = endpoints.Storage
	return group, nil
}

func leases() kind.Kind[coordinationv1.Lease, coordinationv1.LeaseList] {
	return kind.Kind[coordinationv1.Lease, coordinationv1.LeaseList]{
		Version: coordinationv1.SchemeGroupVersion, Plural: "leases", Singular: "lease",
		Namespaced: true,
		PutCreates: true,
		// The holder of a lease must name the version that it updates.
		NeedsResourceVersion: true,
		PrepareCreate:        func(lease *coordinationv1.Lease) { keepUncoordinated(lease, &coordinationv1.Lease{}) },
		Validate:             coordination.ValidateLease,
		Update: kind.Update[coordinationv1.Lease]{
			PrepareUpdate:  keepUncoordinated,
			ValidateUpdate: coordination.ValidateLeaseUpdate,
		},
		Table: kind.Table[coordinationv1.Lease]{
			Columns: []metav1.TableColumnDefinition{
				kind.Name(),
				kind.Column("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
				kind.AgeColumn(),
			},
			Cells: func(lease *coordinationv1.Lease, now time.Time) []any {
				return []any{lease.Name, ptr.Deref(lease.Spec.HolderIdentity, ""), kind.Age(lease.CreationTimestamp, now)}
			},
		},
	}
}

// keepUncoordinated drops the fields that ask the server to elect a leader
// (KEP-4355), unless an object already has them: certplane elects none.
func keepUncoordinated(lease, old *coordinationv1.Lease) {
	if old.Spec.Strategy == nil {
		lease.Spec.Strategy = nil
	}
	if old.Spec.PreferredHolder == nil {
		lease.Spec.PreferredHolder = nil
	}
}
