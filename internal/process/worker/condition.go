package worker

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SetCondition writes a condition into the status of an object, unless it is there. It reads
// the object into object, whose conditions of must return. Several controllers can each write
// a condition of their own: a conflict is an error, after which one tries again. before is the
// reason that the condition had, "" if it did not exist: another reason is worth an Event.
func SetCondition(ctx context.Context, c client.Client, key client.ObjectKey, object client.Object, of func() *[]metav1.Condition, condition metav1.Condition) (before string, err error) {
	if err := c.Get(ctx, key, object); err != nil {
		return "", err
	}
	if known := meta.FindStatusCondition(*of(), condition.Type); known != nil {
		before = known.Reason
	}
	condition.ObservedGeneration = object.GetGeneration()
	if !meta.SetStatusCondition(of(), condition) {
		return before, nil
	}
	return before, c.Status().Update(ctx, object)
}
