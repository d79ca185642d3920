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
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/process/keylock"
	"github.com/certplane/certplane/internal/store/storespace"
)

// OnCreate are the controllers of this process that approve and sign requests within
// the calls that create them.
type OnCreate struct {
	// Hub has their steps; nil means none.
	Hub *issueoncreate.Hub
	// Account returns the user of one of the controllers' service accounts.
	Account func(name string) user.Info
}

// onCreate has the controllers of this process approve and sign requests before
// they are stored. Their updates pass what updates of stored requests pass, except that
// what the creation has checked in the same call is not checked again.
type onCreate struct {
	OnCreate
	generic *genericapiserver.Config
	// space limits the room in the store; it can be nil.
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
	// manage, if not nil, records the owner of the changed fields in the managed fields of
	// updated.
	manage func(before, updated runtime.Object, owner string) runtime.Object
}

// form converts requests of a kind between their stored form and the view of controllers.
type form interface {
	// View returns a stored request as controllers see it; it may be the same object.
	View(stored runtime.Object) (client.Object, error)
	// Stored returns the stored form of a view of a request. base is the current stored form
	// of the request. Neither is modified.
	Stored(base runtime.Object, view client.Object) (runtime.Object, error)
}

// hubForm is the form of kinds whose stored type is also served.
type hubForm struct{}

func (hubForm) View(stored runtime.Object) (client.Object, error) {
	return stored.(client.Object), nil
}

func (hubForm) Stored(base runtime.Object, view client.Object) (runtime.Object, error) {
	hub := reflect.New(reflect.TypeOf(base).Elem()).Interface().(client.Object)
	return hub, convert(view.DeepCopyObject().(client.Object), hub)
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
	whole := obj.(metav1.Object)
	whole.SetResourceVersion(notStored)
	request.SetResourceVersion(notStored)
	updaters := map[string][]string{}
	storing := ctx
	return s.Hub.Run(ctx, issueoncreate.Creation{
		Resource: s.resource, Request: request, Convert: convert,
		Update: func(stepContext context.Context, by issueoncreate.Writer, next, current client.Object) (client.Object, error) {
			to := part{s.Account(by.Account), by.Subresource, by.FieldOwner}
			updated, err := s.update(stepContext, kind, to, whole.(runtime.Object), next)
			if err != nil {
				return nil, err
			}
			view, err := kind.form.View(updated)
			if err != nil {
				return nil, err
			}
			whole = updated.(metav1.Object)
			updaters[to.name] = append(updaters[to.name], to.by.GetName())
			storing = withApprover(storing, current, view, to.by)
			return view, nil
		},
		Store: func(answered client.Object) (client.Object, error) {
			for name, accounts := range updaters {
				audit.AddAuditAnnotation(ctx, auditOnCreate+name, strings.Join(accounts, ", "))
			}
			whole.SetResourceVersion("")
			if err := s.Interface.Create(storing, key, whole.(runtime.Object), out, ttl); err != nil {
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

// part is a subresource and the user who updates it.
type part struct {
	by    user.Info
	name  string
	owner string // in managed fields
}

// update returns before with an update, or the error with which it is refused.
func (o *onCreate) update(ctx context.Context, kind answeredKind, to part, before runtime.Object, next client.Object) (runtime.Object, error) {
	info, ok := apirequest.RequestInfoFrom(ctx)
	rules, has := kind.parts[to.name]
	if !ok || !has {
		return nil, apierrors.NewInternalError(fmt.Errorf("subresource %s does not exist", to.name))
	}
	resource := kind.kind.GroupVersion().WithResource(info.Resource)
	attributes := authorizer.AttributesRecord{
		User: to.by, Verb: "update", Namespace: info.Namespace, APIGroup: resource.Group, APIVersion: resource.Version,
		Resource: resource.Resource, Subresource: to.name, Name: next.GetName(), ResourceRequest: true,
	}
	ctx = asUser(ctx, attributes)
	if decision, reason, err := o.generic.Authorization.Authorizer.Authorize(ctx, attributes); decision != authorizer.DecisionAllow {
		return nil, apierrors.NewForbidden(resource.GroupResource(), next.GetName(),
			errors.Join(fmt.Errorf("user %q cannot update %s/%s: %s", to.by.GetName(), resource.Resource, to.name, reason), err))
	}
	updated, err := kind.form.Stored(before, next)
	if err != nil {
		return nil, err
	}
	if kind.manage != nil {
		updated = kind.manage(before, updated, to.owner)
	}
	change := change{
		kind: kind, part: to, rules: rules, resource: resource, updated: updated, before: before,
		namespace: info.Namespace, name: next.GetName(), interfaces: objectInterfaces{o.generic},
	}
	if alone, ok := kind.admission.(interface {
		Alone(resource schema.GroupResource, subresource string) admission.MutationInterface
	}); ok {
		if checks := alone.Alone(resource.GroupResource(), to.name); checks != nil {
			return updated, change.alone(ctx, checks)
		}
	}
	change.before = before.DeepCopyObject() // not all plugins are of this program
	return updated, change.asStored(ctx)
}

// change is an update of a request that is being created.
type change struct {
	kind            answeredKind
	part            part
	rules           rest.RESTUpdateStrategy
	resource        schema.GroupVersionResource
	updated, before runtime.Object
	namespace, name string
	interfaces      objectInterfaces
}

func (c change) attributes() admission.Attributes {
	return admission.NewAttributesRecord(c.updated, c.before, c.kind.kind, c.namespace, c.name, c.resource, c.part.name,
		admission.Update, &metav1.UpdateOptions{}, false, c.part.by)
}

// answering is implemented by the rules of subresources that only look at the status.
type answering interface {
	// Answer prepares and validates an update of a request that is being created, which has
	// been validated already and changes only in its status.
	Answer(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

// alone makes a change with which no policy and no webhook of users is concerned. The
// metadata and the spec were validated when the request was, in the same call.
func (c change) alone(ctx context.Context, checks admission.MutationInterface) error {
	if err := admission.WithAudit(checks).(admission.MutationInterface).Admit(ctx, c.attributes(), c.interfaces); err != nil {
		return err
	}
	rules, ok := c.rules.(answering)
	if !ok {
		return rest.BeforeUpdate(c.rules, ctx, c.updated, c.before)
	}
	if errs := rules.Answer(ctx, c.updated, c.before); len(errs) > 0 {
		return apierrors.NewInvalid(c.kind.kind.GroupKind(), c.name, errs)
	}
	return nil
}

// asStored makes a change in the order of an update of a stored object: admission that
// changes it, the rules of the subresource, admission that checks it.
func (c change) asStored(ctx context.Context) error {
	checks := admission.WithAudit(c.kind.admission)
	if mutating, ok := checks.(admission.MutationInterface); ok && checks.Handles(admission.Update) {
		if err := mutating.Admit(ctx, c.attributes(), c.interfaces); err != nil {
			return err
		}
	}
	if err := rest.BeforeUpdate(c.rules, ctx, c.updated, c.before); err != nil {
		return err
	}
	if validating, ok := checks.(admission.ValidationInterface); ok && checks.Handles(admission.Update) {
		return validating.Validate(ctx, c.attributes(), c.interfaces)
	}
	return nil
}

// auditOnCreate is the prefix of a creation's audit annotations that list, in order, the
// users who updated subresources within the creation.
const auditOnCreate = "oncreate.certplane.dev/"

// asUser returns the context of a request of another user within that of ctx.
func asUser(ctx context.Context, a authorizer.AttributesRecord) context.Context {
	ctx = context.WithValue(ctx, authenticatedKey{}, &authenticated{user: a.User})
	return apirequest.WithUser(apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{
		IsResourceRequest: true, Verb: a.Verb, APIPrefix: "apis", APIGroup: a.APIGroup, APIVersion: a.APIVersion,
		Namespace: a.Namespace, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
	}), a.User)
}

// convert makes an object equal to one of the same kind, perhaps of another version. They
// can share parts.
func convert(from, to client.Object) error {
	source, target := reflect.ValueOf(from), reflect.ValueOf(to)
	if source.Type() == target.Type() {
		target.Elem().Set(source.Elem())
		return nil
	}
	return api.Scheme.Convert(from, to, nil)
}

// objectInterfaces describes the kinds of this server to admission.
type objectInterfaces struct{ generic *genericapiserver.Config }

var _ admission.ObjectInterfaces = objectInterfaces{}

func (objectInterfaces) GetObjectCreater() runtime.ObjectCreater     { return api.Scheme }
func (objectInterfaces) GetObjectTyper() runtime.ObjectTyper         { return api.Scheme }
func (objectInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return api.Scheme }
func (objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return api.Scheme }

func (i objectInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return i.generic.EquivalentResourceRegistry
}
