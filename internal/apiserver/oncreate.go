package apiserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/issueoncreate"
	"github.com/certplane/certplane/internal/keylock"
	"github.com/certplane/certplane/internal/storespace"
)

// OnCreate are the controllers of this process that approve and sign requests within
// the calls that create them.
type OnCreate struct {
	// Hub has their steps; nil means none.
	Hub *issueoncreate.Hub
	// Account returns the user that a service account of theirs is.
	Account func(name string) user.Info
}

// onCreate has the controllers of this process approve and sign requests before
// they are stored. Their updates pass what updates of stored requests pass.
type onCreate struct {
	OnCreate
	generic *genericapiserver.Config
	// space knows how much room is left; it can be nil.
	space *storespace.Space

	// names are the keys of the requests that are being answered.
	names keylock.Locks

	mu sync.RWMutex // guards kinds
	// kinds are the resources whose subresources are known.
	kinds map[schema.GroupResource]answeredKind
}

// answeredKind has the rules for updates of requests of a kind.
type answeredKind struct {
	// kind is that with which the controllers update the requests.
	kind  schema.GroupVersionKind
	parts map[string]rest.RESTUpdateStrategy // by the name of the subresource
	form  form
	// admission decides about requests in their stored form.
	admission admission.Interface
	// manage, if not nil, adds who owns the fields of updated to its managed fields.
	manage func(before, updated runtime.Object, owner string) runtime.Object
}

// form says how requests of a kind are stored, and how controllers see them.
type form interface {
	// View returns a stored request as controllers see it; it may be the same object.
	View(stored runtime.Object) (client.Object, error)
	// Stored returns the stored form of a view of a request. base is the request in its
	// stored form, as it was or is. Neither is modified.
	Stored(base runtime.Object, view client.Object) (runtime.Object, error)
}

// hubForm is the form of kinds whose stored type is also served.
type hubForm struct{}

func (hubForm) View(stored runtime.Object) (client.Object, error) {
	return stored.(client.Object), nil
}

func (hubForm) Stored(base runtime.Object, view client.Object) (runtime.Object, error) {
	hub := reflect.New(reflect.TypeOf(base).Elem()).Interface().(client.Object)
	return hub, convert(view, hub)
}

// wrap wraps the store of a resource.
func (o *onCreate) wrap(resource schema.GroupResource, store storage.Interface) storage.Interface {
	if o.Hub == nil {
		return store
	}
	return answeringStore{store, resource, o}
}

func (o *onCreate) kind(resource schema.GroupResource) (kind answeredKind, known bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	kind, known = o.kinds[resource]
	return kind, known
}

func (o *onCreate) put(resource schema.GroupResource, kind answeredKind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds[resource] = kind
}

// serves notes the subresources of a group that is served.
func (o *onCreate) serves(group *genericapiserver.APIGroupInfo, versions ...string) {
	for _, version := range versions {
		for path, endpoint := range group.VersionedResourcesStorageMap[version] {
			name, part, is := strings.Cut(path, "/")
			updates, has := endpoint.(interface {
				Strategy() rest.RESTUpdateStrategy
			})
			if !is || !has {
				continue
			}
			kinds, _, err := api.Scheme.ObjectKinds(endpoint.New())
			if err != nil {
				continue // it is no request
			}
			gv := schema.GroupVersion{Group: kinds[0].Group, Version: version}
			resource := gv.WithResource(name).GroupResource()
			kind, known := o.kind(resource)
			if !known {
				kind = answeredKind{kind: gv.WithKind(kinds[0].Kind), parts: map[string]rest.RESTUpdateStrategy{}, form: hubForm{}, admission: o.generic.AdmissionControl}
			}
			kind.parts[part] = updates.Strategy()
			o.put(resource, kind)
		}
	}
}

// answeringStore has requests answered before it stores them.
type answeringStore struct {
	storage.Interface
	resource schema.GroupResource
	*onCreate
}

// Create implements storage.Interface.
func (s answeringStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	kind, known := s.kind(s.resource)
	if !known {
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	request, err := kind.form.View(obj)
	if err != nil || !s.Hub.Takes(s.resource, request) {
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	release, err := s.names.Lock(ctx, key) // of several requests of one name, one gets a certificate
	if err != nil {
		return apierrors.NewTimeoutError("another request of this name is being answered: "+err.Error(), retrySeconds)
	}
	defer release()
	if s.exists(ctx, key, out) {
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	if err := room(ctx, s.space, obj); err != nil { // nothing is signed in vain
		return err
	}
	request.SetResourceVersion(notStored)
	updaters := map[string][]string{}
	storing := ctx
	return s.Hub.Run(ctx, issueoncreate.Creation{
		Resource: s.resource, Request: request, Convert: convert,
		Update: func(stepContext context.Context, by issueoncreate.Writer, next, current client.Object) (client.Object, error) {
			to := part{s.Account(by.Account), by.Subresource, by.FieldOwner}
			updated, err := s.update(stepContext, kind, to, obj, next, current)
			if err == nil {
				updaters[to.name] = append(updaters[to.name], to.by.GetName())
				storing = withApprover(storing, current, updated, to.by)
			}
			return updated, err
		},
		Store: func(answered client.Object) (client.Object, error) {
			for name, accounts := range updaters {
				audit.AddAuditAnnotation(ctx, auditOnCreate+name, strings.Join(accounts, ", "))
			}
			answered.SetResourceVersion("")
			whole, err := kind.form.Stored(obj, answered)
			if err != nil {
				return answered, err
			}
			if err := s.Interface.Create(storing, key, whole, out, ttl); err != nil {
				return answered, err
			}
			return kind.form.View(out)
		},
	})
}

// notStored is the resource version of requests that are being created: the rules
// for updates want one.
const notStored = "1"

// exists reports whether an object has the key already. Then its creation fails,
// and no certificate must be wasted on it.
func (s answeringStore) exists(ctx context.Context, key string, empty runtime.Object) bool {
	found := reflect.New(reflect.TypeOf(empty).Elem()).Interface().(runtime.Object)
	return !storage.IsNotFound(s.Get(ctx, key, storage.GetOptions{}, found))
}

// part is a subresource and who updates it.
type part struct {
	by    user.Info
	name  string
	owner string // in managed fields
}

// update returns the view of current with an update, or the error with which it is
// refused, in the order of an update of a stored object: authorization, admission that
// changes it, the rules of the subresource, admission that checks it.
func (o *onCreate) update(ctx context.Context, kind answeredKind, to part, base runtime.Object, next, current client.Object) (client.Object, error) {
	info, ok := apirequest.RequestInfoFrom(ctx)
	rules, has := kind.parts[to.name]
	if !ok || !has {
		return nil, apierrors.NewInternalError(fmt.Errorf("there is no subresource %s", to.name))
	}
	resource := kind.kind.GroupVersion().WithResource(info.Resource)
	attributes := authorizer.AttributesRecord{
		User: to.by, Verb: "update", Namespace: current.GetNamespace(), APIGroup: resource.Group, APIVersion: resource.Version,
		Resource: resource.Resource, Subresource: to.name, Name: current.GetName(), ResourceRequest: true,
	}
	ctx = asUser(ctx, attributes)
	if decision, reason, err := o.generic.Authorization.Authorizer.Authorize(ctx, attributes); decision != authorizer.DecisionAllow {
		return nil, apierrors.NewForbidden(resource.GroupResource(), current.GetName(),
			errors.Join(fmt.Errorf("user %q cannot update %s/%s: %s", to.by.GetName(), resource.Resource, to.name, reason), err))
	}
	updated, err := kind.form.Stored(base, next)
	if err != nil {
		return nil, err
	}
	before, err := kind.form.Stored(base, current)
	if err != nil {
		return nil, err
	}
	if kind.manage != nil {
		updated = kind.manage(before, updated, to.owner)
	}
	admitted := func() admission.Attributes {
		return admission.NewAttributesRecord(updated, before, kind.kind, current.GetNamespace(),
			current.GetName(), resource, to.name, admission.Update, &metav1.UpdateOptions{}, false, to.by)
	}
	checks, interfaces := admission.WithAudit(kind.admission), objectInterfaces{o.generic}
	if mutating, ok := checks.(admission.MutationInterface); ok && checks.Handles(admission.Update) {
		if err := mutating.Admit(ctx, admitted(), interfaces); err != nil {
			return nil, err
		}
	}
	if err := rest.BeforeUpdate(rules, ctx, updated, before); err != nil {
		return nil, err
	}
	if validating, ok := checks.(admission.ValidationInterface); ok && checks.Handles(admission.Update) {
		if err := validating.Validate(ctx, admitted(), interfaces); err != nil {
			return nil, err
		}
	}
	return kind.form.View(updated)
}

// auditOnCreate begins the audit annotations of a creation that say who has updated
// which subresource within it, in this order.
const auditOnCreate = "oncreate.certplane.dev/"

// asUser returns the context of a request of another user within that of ctx.
func asUser(ctx context.Context, a authorizer.AttributesRecord) context.Context {
	ctx = context.WithValue(ctx, authenticatedKey{}, &authenticated{user: a.User})
	return apirequest.WithUser(apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{
		IsResourceRequest: true, Verb: a.Verb, APIPrefix: "apis", APIGroup: a.APIGroup, APIVersion: a.APIVersion,
		Namespace: a.Namespace, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
	}), a.User)
}

// convert copies an object to one of the same kind, perhaps of another version.
func convert(from, to client.Object) error {
	from = from.DeepCopyObject().(client.Object)
	source, target := reflect.ValueOf(from), reflect.ValueOf(to)
	if source.Type() == target.Type() {
		target.Elem().Set(source.Elem())
		return nil
	}
	return api.Scheme.Convert(from, to, nil)
}

// objectInterfaces is what admission needs to know of the kinds of this server.
type objectInterfaces struct{ generic *genericapiserver.Config }

var _ admission.ObjectInterfaces = objectInterfaces{}

func (objectInterfaces) GetObjectCreater() runtime.ObjectCreater     { return api.Scheme }
func (objectInterfaces) GetObjectTyper() runtime.ObjectTyper         { return api.Scheme }
func (objectInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return api.Scheme }
func (objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return api.Scheme }

func (i objectInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return i.generic.EquivalentResourceRegistry
}
