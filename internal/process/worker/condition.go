package worker

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/process/eventtext"
)

// SetCondition writes a condition into the status of an object, unless it is there. It reads
// the object into object, of which conditions is a part. Several controllers can each write
// a condition of their own: a conflict is an error, after which one tries again. before is the
// reason that the condition had, "" if it did not exist. If the reason is another one, and events
// is not nil, it records an Event: its reason is the type of the condition, after "Not" unless
// that is True.
func SetCondition(ctx context.Context, c client.Client, events events.EventRecorder, key client.ObjectKey, object client.Object, conditions *[]metav1.Condition,
	condition metav1.Condition, action string) (before string, err error) {
	if err := c.Get(ctx, key, object); err != nil {
		return "", err
	}
	if known := meta.FindStatusCondition(*conditions, condition.Type); known != nil {
		before = known.Reason
	}
	condition.ObservedGeneration = object.GetGeneration()
	if meta.SetStatusCondition(conditions, condition) {
		err = c.Status().Update(ctx, object)
	}
	if err != nil || before == condition.Reason || events == nil {
		return before, err
	}
	kind, reason := corev1.EventTypeWarning, "Not"+condition.Type
	if condition.Status == metav1.ConditionTrue {
		kind, reason = corev1.EventTypeNormal, condition.Type
	}
	events.Eventf(object, nil, kind, reason, action, "%s", eventtext.Fit(condition.Message))
	return before, nil
}
