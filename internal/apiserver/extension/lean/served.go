package lean

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/waitgroup"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// served is a definition that is being served.
type served struct {
	*definition
	store       *registry.Store
	status      statusEndpoint
	scope       *handlers.RequestScope
	statusScope *handlers.RequestScope
	admission   admission.Interface
	watchTime   time.Duration
	requests    waitgroup.SafeWaitGroup
}

func (s *Server) serve(crd *apiextensionsv1.CustomResourceDefinition) (*served, error) {
	d, err := compile(crd, s.models, s.converters)
	if err != nil {
		return nil, err
	}
	d.owned = slices.Contains(s.Owned, crd.Name)
	options := runtime.NewScheme()
	options.AddUnversionedTypes(d.kind.GroupVersion(), &metav1.ListOptions{}, &metav1.GetOptions{}, &metav1.DeleteOptions{})
	typer := objectTyper{options}
	equivalent := runtime.NewEquivalentResourceRegistry()
	resource := d.kind.GroupVersion().WithResource(crd.Status.AcceptedNames.Plural)
	equivalent.RegisterKindFor(resource, "", d.kind)
	equivalent.RegisterKindFor(resource, "status", d.kind)

	store, err := openStore(d, typer, s.Options)
	if err != nil {
		return nil, err
	}
	out := &served{
		definition: d, store: store, status: newStatusEndpoint(store), watchTime: s.MinWatch,
		admission: looseAdmission{d, s.Admission, looseInterfaces{d, typer, equivalent}},
	}
	formats := newWire(d, typer, s.Objects)
	scope := handlers.RequestScope{
		Namer:                    handlers.ContextBasedNaming{Namer: meta.NewAccessor(), ClusterScoped: !d.namespaced},
		Serializer:               formats,
		StandardSerializers:      formats.ofObjects(),
		ParameterCodec:           runtime.NewParameterCodec(options),
		Creater:                  objectCreater{},
		Convertor:                objectConverter{d},
		UnsafeConvertor:          objectConverter{d},
		Defaulter:                options, // decoders and appliers set the defaults of objects
		Typer:                    typer,
		EquivalentResourceMapper: equivalent,
		Resource:                 resource,
		Kind:                     d.kind,
		HubGroupVersion:          d.kind.GroupVersion(),
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		TableConvertor:           store,
		Authorizer:               s.Authorizer,
		MaxRequestBodyBytes:      s.MaxBody,
	}
	if out.scope, err = withFieldManager(scope, d, store.GetResetFields()); err != nil {
		store.DestroyFunc()
		return nil, err
	}
	scope.Subresource = "status"
	if out.statusScope, err = withFieldManager(scope, d, out.status.GetResetFields()); err != nil {
		store.DestroyFunc()
		return nil, err
	}
	if s.Opened != nil {
		s.Opened(Rules{
			Resource: resource, Kind: d.kind, Status: out.status.store.UpdateStrategy, Admission: out.admission,
			Manage: out.statusScope.FieldManager.UpdateNoErrors,
		})
	}
	return out, nil
}

func withFieldManager(scope handlers.RequestScope, d *definition, reset map[fieldpath.APIVersion]*fieldpath.Set) (*handlers.RequestScope, error) {
	types := d.types
	if d.owned {
		types = noFields{}
	}
	var err error
	scope.FieldManager, err = managedfields.NewDefaultCRDFieldManager(types, scope.Convertor, scope.Defaulter, scope.Creater,
		scope.Kind, scope.HubGroupVersion, scope.Subresource, fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		return nil, fmt.Errorf("managing the fields of %s: %w", scope.Resource, err)
	}
	return &scope, nil
}

// handler returns nil for requests that the library has to answer: they are
// refused.
func (s *served) handler(info *request.RequestInfo) http.HandlerFunc {
	switch info.Subresource {
	case "":
		return s.resourceHandler(info.Verb)
	case "status":
		return s.statusHandler(info.Verb)
	}
	return nil
}

func (s *served) resourceHandler(verb string) http.HandlerFunc {
	switch verb {
	case "get":
		return handlers.GetResource(s.store, s.scope)
	case "list", "watch":
		return handlers.ListResource(s.store, s.store, s.scope, verb == "watch", s.watchTime)
	case "create":
		return handlers.CreateResource(s.store, s.scope, s.admission)
	case "update":
		return handlers.UpdateResource(s.store, s.scope, s.admission)
	case "patch":
		return handlers.PatchResource(s.store, s.scope, s.admission, s.patchTypes())
	case "delete":
		return handlers.DeleteResource(s.store, true, s.scope, s.admission)
	case "deletecollection":
		return handlers.DeleteCollection(s.store, true, s.scope, s.admission)
	}
	return nil
}

func (s *served) statusHandler(verb string) http.HandlerFunc {
	switch verb {
	case "get":
		return handlers.GetResource(s.status, s.statusScope)
	case "update":
		return handlers.UpdateResource(s.status, s.statusScope, s.admission)
	case "patch":
		return handlers.PatchResource(s.status, s.statusScope, s.admission, s.patchTypes())
	}
	return nil
}

// patchTypes are the patch types of custom resources. Strategic merge patches are not among
// them, because they need Go types. Apply patches need managed fields.
func (s *served) patchTypes() []string {
	all := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if s.owned {
		return all
	}
	all = append(all, string(types.ApplyYAMLPatchType))
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		all = append(all, string(types.ApplyCBORPatchType))
	}
	return all
}
