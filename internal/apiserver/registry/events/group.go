// Package events serves events, which are the same objects in the core group
// and in events.k8s.io.
package events

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// TTL is how long events are kept after their last change.
const TTL = time.Hour

// NewStorage returns the resource events for all groups that serve it.
func NewStorage(options generic.RESTOptionsGetter) (rest.Storage, error) {
	kind := describe()
	endpoints, err := kind.Open(options)
	if err != nil {
		return nil, err
	}
	return endpoints.Storage[kind.Plural], nil
}

// NewAPIGroup returns events.k8s.io with storage.
func NewAPIGroup(storage rest.Storage) genericapiserver.APIGroupInfo {
	group := kind.NewGroup(eventsv1.GroupName)
	group.VersionedResourcesStorageMap[eventsv1.SchemeGroupVersion.Version] = map[string]rest.Storage{"events": storage}
	return group
}

func describe() kind.Kind[corev1.Event, corev1.EventList] {
	return kind.Kind[corev1.Event, corev1.EventList]{
		Version: corev1.SchemeGroupVersion, Plural: "events", Singular: "event",
		ShortNames:  []string{"ev"},
		Namespaced:  true,
		PutCreates:  true,
		OwnsNothing: true,
		TTL:         TTL,
		Check:       check,
		Fields:      events.Fields,
		Table:       table(),
	}
}

func check(ctx context.Context, event, old *corev1.Event) field.ErrorList {
	var version schema.GroupVersion
	if info, ok := request.RequestInfoFrom(ctx); ok {
		version = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	if old == nil {
		return events.Validate(event, version)
	}
	return events.ValidateUpdate(event, old, version)
}
