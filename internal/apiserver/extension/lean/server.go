// Package lean serves custom resources of simple definitions with a fraction of the
// library's work.
//
// The library keeps an object as a tree of JSON values and converts its metadata from and to
// their Go type several times with each read and write. Here the metadata stay in their Go
// type, and spec and status are texts, which are parsed only when a schema, a field manager
// or a plugin reads them. A text that is known to match the definition is not checked again.
//
// Go types for the kinds would be worse: they would lose details of what clients have
// written, such as "isCA: false" or the form of "duration: 2160h".
//
// The library still serves definitions, discovery and OpenAPI. It also serves the objects of
// a definition whenever that is not simple, and stores them in the same form: each
// implementation can read what the other has written.
//
// A definition is simple if it has one version, a status subresource, no scale subresource
// and no conversion, and if its schema describes spec and status alone (see simple).
//
// The promise is the wire behavior of the library at the version in go.mod: the same
// answers, warnings, errors, watch events and stored bytes. TestServer sends the same
// requests to both, for two groups with the same definitions, and compares them. After an
// update of Kubernetes' modules, run it first. TestMetadataOrder fails if the metadata
// have new fields.
//
// Other parts need this package for three features: issueOnCreate of
// CertificateRequests (apiserver.leanForm), custom resources passed as Go values
// (passing.go), and objects that are created with their status and without managed
// fields (Config.Owned: AcmeOrders). CertificateRequests that the library serves are
// approved and signed in three steps.
package lean

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

// Config has the parts of a Server.
type Config struct {
	// Names are the names of the definitions to serve if they are simple.
	Names []string
	// Owned are the names in Names of definitions whose objects only one program writes.
	// These objects keep the status that they are created with, which the library would
	// drop; they have no managed fields and cannot be applied. Admission must decide which
	// users may write them.
	Owned []string
	// Definitions are all that are stored.
	Definitions informers.CustomResourceDefinitionInformer
	// Options open stores with the codec of the library.
	Options generic.RESTOptionsGetter
	// Objects, if not nil, are passed to clients of this process without encoding them,
	// if it has the Go types of their kind.
	Objects *objectpass.Objects
	// OpenAPI describes metadata.
	OpenAPI *common.OpenAPIV3Config
	// Admission and Authorizer are those of the server in front.
	Admission  admission.Interface
	Authorizer authorizer.UnconditionalAuthorizer
	// Opened, if not nil, is called with the rules of each definition that is served,
	// before its objects are.
	Opened func(Rules)
	// Services and Credentials are used by the library's conversions.
	Services    webhook.ServiceResolver
	Credentials webhook.AuthenticationInfoResolverWrapper
	// Clock is the clock.
	Clock clock.PassiveClock
	// Settle is how long after a definition is established objects cannot be
	// created: until other servers have seen it.
	Settle time.Duration
	// RequestTime is the longest time of a request, and MinWatch the shortest of a
	// watch.
	RequestTime, MinWatch time.Duration
	// MaxBody is the largest request, in bytes.
	MaxBody int64
}

// Rules are those for updates of the objects of a definition.
type Rules struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Status has the rules for the subresource /status.
	Status rest.RESTUpdateStrategy
	// Admission takes Objects.
	Admission admission.Interface
	// Manage returns updated with the managed fields after an update of the status of
	// before by a manager.
	Manage func(before, updated runtime.Object, manager string) runtime.Object
}

// Server serves the definitions of its names.
type Server struct {
	Config
	names      sets.Set[string]
	lister     listers.CustomResourceDefinitionLister
	models     map[string]*spec.Schema
	converters *conversion.CRConverterFactory

	mu sync.Mutex // held to change current
	// current are the definitions that have been asked for; a nil one is served by
	// the library until it changes.
	current atomic.Pointer[map[types.UID]*entry]
}

// entry is a definition and how it is served.
type entry struct {
	crd    *apiextensionsv1.CustomResourceDefinition
	served *served // nil if the library serves it
}

// New builds a server.
func New(cfg Config) (*Server, error) {
	s := &Server{Config: cfg, names: sets.New(cfg.Names...), lister: cfg.Definitions.Lister()}
	s.current.Store(&map[types.UID]*entry{})
	var err error
	if s.models, err = builder3.BuildOpenAPIDefinitionsForResources(cfg.OpenAPI, metadataModels...); err != nil {
		return nil, fmt.Errorf("describing metadata: %w", err)
	}
	if s.converters, err = conversion.NewCRConverterFactory(cfg.Services, cfg.Credentials); err != nil {
		return nil, fmt.Errorf("making the converters of custom resources: %w", err)
	}
	_, err = cfg.Definitions.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, _ any) { s.drop() },
		DeleteFunc: func(any) { s.drop() },
	})
	return s, err
}

// Handler returns a handler that passes requests to next which this server does not serve.
func (s *Server) Handler(next http.Handler) http.Handler {
	isWatch := genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := request.RequestInfoFrom(r.Context())
		if !known || !info.IsResourceRequest {
			next.ServeHTTP(w, r)
			return
		}
		target, coming := s.find(info)
		if coming {
			http.NotFound(w, r)
			return
		}
		if target == nil {
			next.ServeHTTP(w, r)
			return
		}
		handler := target.handler(info)
		if handler == nil {
			next.ServeHTTP(w, r)
			return
		}
		handler = metrics.InstrumentHandlerFunc(strings.ToUpper(info.Verb), info.APIGroup, info.APIVersion, info.Resource, info.Subresource,
			metrics.CleanScope(info), metrics.APIServerComponent, false, "", handler)
		genericfilters.WithWaitGroup(handler, isWatch, &target.requests).ServeHTTP(w, r)
	})
}

// find returns nil if the library must answer. coming is true if the definition is not
// established yet: the library would answer that it does not exist or, if it is established
// in the meantime, would open its own store that watches all changes permanently.
func (s *Server) find(info *request.RequestInfo) (target *served, coming bool) {
	name := info.Resource + "." + info.APIGroup
	if !s.names.Has(name) {
		return nil, false
	}
	crd, err := s.lister.Get(name)
	switch {
	case err != nil:
		return nil, false
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) && crd.DeletionTimestamp.IsZero():
		return nil, true
	case !servable(crd) || !inScope(crd, info) || info.Verb == "create" && s.isSettling(crd):
		return nil, false
	}
	e := s.entry(crd)
	if e == nil || e.served == nil || e.served.version.Name != info.APIVersion {
		return nil, false
	}
	return e.served, false
}

// inScope reports whether a namespace is named exactly where there has to be one.
func inScope(crd *apiextensionsv1.CustomResourceDefinition, info *request.RequestInfo) bool {
	namespaced := crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	if info.Namespace != "" {
		return namespaced
	}
	return !namespaced || info.Verb == "list" || info.Verb == "watch"
}

func (s *Server) isSettling(crd *apiextensionsv1.CustomResourceDefinition) bool {
	established := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established)
	return established != nil && s.Clock.Since(established.LastTransitionTime.Time) < s.Settle
}

// entry returns how a definition is served; nil if the definition no longer exists. It
// decides once for each state of the definition, from the stored form. So it follows a
// definition that was replaced by a newer or an older one, like the library.
func (s *Server) entry(crd *apiextensionsv1.CustomResourceDefinition) *entry {
	if e := (*s.current.Load())[crd.UID]; e != nil && e.isOf(crd) {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	crd, err := s.lister.Get(crd.Name) // it may have changed before the lock was held
	if err != nil {
		return nil
	}
	before := (*s.current.Load())[crd.UID]
	if before != nil && before.isOf(crd) {
		return before
	}
	e := &entry{crd: crd}
	target, err := s.serve(crd)
	if err == nil {
		e.served = target
	} else if !errors.Is(err, errNotSimple) {
		utilruntime.HandleError(err)
	}
	s.replace(before, crd.UID, e)
	return e
}

func (e *entry) isOf(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return e.crd == crd || e.crd.UID == crd.UID && e.crd.Generation == crd.Generation &&
		slices.Equal(acceptedNames(e.crd), acceptedNames(crd))
}

func acceptedNames(crd *apiextensionsv1.CustomResourceDefinition) []string {
	names := crd.Status.AcceptedNames
	return append([]string{names.Plural, names.Singular, names.Kind, names.ListKind}, names.Categories...)
}

// replace must be called with mu held.
func (s *Server) replace(before *entry, uid types.UID, after *entry) {
	current := maps.Clone(*s.current.Load())
	if delete(current, uid); after != nil {
		current[uid] = after
	}
	s.current.Store(&current)
	if before != nil && before.served != nil {
		go s.retire(before.served)
	}
}

// drop forgets definitions that have changed or are gone. It ends their watches:
// clients watch again, and get objects as the definition is now.
func (s *Server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, e := range *s.current.Load() {
		if crd, err := s.lister.Get(e.crd.Name); err != nil || !e.isOf(crd) {
			s.replace(e, uid, nil)
		}
	}
}

// retire closes a store when the requests that use it have ended.
func (s *Server) retire(target *served) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(time.Second) // requests that have found it and do not count yet
		target.requests.Wait()
	}()
	select {
	case <-done:
	case <-time.After(2 * s.RequestTime):
		klog.Background().Info("Closing a store that is still in use", "definition", target.crd.Name)
	}
	target.store.DestroyFunc()
}

// Destroy closes all stores.
func (s *Server) Destroy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range *s.current.Load() {
		if e.served != nil {
			e.served.store.DestroyFunc()
		}
	}
}

// metadataModels are the names of the types in the schema of every definition.
var metadataModels = []string{
	"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
	"io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
}
