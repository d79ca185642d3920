// Package events has the conversions and the validation of Events in their two
// API groups. Events of both groups are the same stored objects.
package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme registers Event of the core group and of events.k8s.io. The
// core group's v1 is the internal version of both.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, gv := range []schema.GroupVersion{
		corev1.SchemeGroupVersion,
		{Group: corev1.GroupName, Version: runtime.APIVersionInternal},
		{Group: eventsv1.GroupName, Version: runtime.APIVersionInternal},
	} {
		scheme.AddKnownTypes(gv, &corev1.Event{}, &corev1.EventList{})
	}
	scheme.AddKnownTypes(eventsv1.SchemeGroupVersion, &eventsv1.Event{}, &eventsv1.EventList{})
	metav1.AddToGroupVersion(scheme, eventsv1.SchemeGroupVersion)
	for _, add := range []func(*runtime.Scheme) error{addConversions, addFieldLabels} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("registering events: %w", err)
		}
	}
	if err := scheme.SetVersionPriority(eventsv1.SchemeGroupVersion); err != nil {
		return fmt.Errorf("ordering the versions of %s: %w", eventsv1.GroupName, err)
	}
	return nil
}
