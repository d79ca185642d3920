package acmeclean

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// answering is a client whose updates have one outcome.
type answering struct {
	client.Client
	outcome error
	updates int
}

func (a *answering) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	a.updates++
	if a.outcome == nil {
		o.SetResourceVersion("2")
		o.SetManagedFields(nil)
	}
	return a.outcome
}

// A cleaner with the rights of an older version leaves the managed fields, and goes on with
// the rest. After other errors it tries again.
func TestForgetWriters(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	orders := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "acmeorders"}
	for _, tc := range []struct {
		reason  string
		managed []metav1.ManagedFieldsEntry
		outcome error
		updates int
		fails   bool
		version string
	}{
		{"it may", managed, nil, 1, false, "2"},
		{"there are none", nil, nil, 0, false, "1"},
		{"it may not", managed, apierrors.NewForbidden(orders, "a", errors.New("no")), 1, false, "1"},
		{"somebody has changed the order", managed, apierrors.NewConflict(orders, "a", errors.New("no")), 1, true, "1"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			api := &answering{outcome: tc.outcome}
			r := &reconciler{Config: Config{Client: api}}
			o := &v1alpha1.AcmeOrder{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1", ManagedFields: tc.managed}}
			err := r.forgetWriters(t.Context(), o)
			if (err != nil) != tc.fails || api.updates != tc.updates || o.ResourceVersion != tc.version {
				t.Errorf("%v after %d updates, version %s", err, api.updates, o.ResourceVersion)
			}
		})
	}
}
