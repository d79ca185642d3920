package policies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/process/notify"
)

// The resources of policies and of exceptions.
var (
	PoliciesResource   = v1alpha1.GroupVersion.WithResource("certificatepolicies")
	ExceptionsResource = v1alpha1.GroupVersion.WithResource("certificatepolicyexceptions")
	// RequestPoliciesResource is the resource of approver-policy's policies.
	RequestPoliciesResource = approverpolicy.GroupVersion.WithResource(approverpolicy.Resource)
)

// source keeps all policies and exceptions of an API compiled. A complete set stays in
// force while the API cannot be reached.
type source struct {
	clock clock.PassiveClock
	// changes calls its subscribers after a new set is in force.
	changes notify.List[struct{}]
	current atomic.Pointer[inForce]

	mu         sync.Mutex // guards all below
	policies   map[string]*certpolicy.Policy
	exceptions map[string]*certpolicy.Exception
	// requestPolicies are the policies of approver-policy; nil if they are not
	// enforced.
	requestPolicies map[string]requestPolicy
	// listed is set when the maps are complete.
	listed bool
}

// inForce is a set and the time from which on it is in force.
type inForce struct {
	set *certpolicy.Set
	// requestPolicies are nil if they are not enforced.
	requestPolicies RequestPolicies
	since           time.Time
}

func newSource(clock clock.PassiveClock, settings Settings) *source {
	s := &source{clock: clock, policies: map[string]*certpolicy.Policy{}, exceptions: map[string]*certpolicy.Exception{}}
	if settings.CertificateRequestPolicies {
		s.requestPolicies = map[string]requestPolicy{}
	}
	return s
}

// follow follows the objects until ctx ends. Until all of them are listed, the
// former set stays in force.
func (s *source) follow(ctx context.Context, api dynamic.Interface) error {
	s.mu.Lock()
	s.listed = false
	clear(s.policies)
	clear(s.exceptions)
	clear(s.requestPolicies)
	s.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var handled []toolscache.InformerSynced
	for _, kind := range s.kinds() {
		watched, err := s.watch(api, kind)
		if err != nil {
			return err
		}
		running.Go(func() { watched.informer.RunWithContext(ctx) })
		handled = append(handled, watched.handled)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), handled...) {
		return ctx.Err()
	}
	s.mu.Lock()
	s.listed = true
	s.publish()
	s.mu.Unlock()
	s.changes.Tell(struct{}{})
	<-ctx.Done()
	return nil
}

// watched is an informer, and whether its first list has been processed.
type watched struct {
	informer toolscache.SharedIndexInformer
	handled  toolscache.InformerSynced
}

// kind is how the objects of a resource are handled.
type kind struct {
	resource schema.GroupVersionResource
	put      func(*unstructured.Unstructured) error
	remove   func(name string)
	// same reports whether a change of an object does not matter.
	same func(old, object any) bool
}

func (s *source) kinds() []kind {
	kinds := []kind{
		{PoliciesResource, s.putPolicy, func(name string) { delete(s.policies, name) }, sameSpec},
		{ExceptionsResource, s.putException, func(name string) { delete(s.exceptions, name) }, sameSpec},
	}
	if s.requestPolicies != nil {
		kinds = append(kinds, kind{RequestPoliciesResource, s.putRequestPolicy, func(name string) { delete(s.requestPolicies, name) }, sameStatus})
	}
	return kinds
}

func (s *source) watch(api dynamic.Interface, kind kind) (watched, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(api, kind.resource, metav1.NamespaceAll, 0, toolscache.Indexers{}, nil).Informer()
	changed := func(object any, change func(*unstructured.Unstructured) error) {
		if gone, isGone := object.(toolscache.DeletedFinalStateUnknown); isGone {
			object = gone.Obj
		}
		loose, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		if err := s.change(func() error { return change(loose) }); err != nil {
			klog.ErrorS(err, "Cannot read an object, so it has no effect", "resource", kind.resource.Resource, "name", loose.GetName())
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { changed(object, kind.put) },
		UpdateFunc: func(old, object any) {
			if !kind.same(old, object) {
				changed(object, kind.put)
			}
		},
		DeleteFunc: func(object any) {
			changed(object, func(gone *unstructured.Unstructured) error { kind.remove(gone.GetName()); return nil })
		},
	})
	err = errors.Join(err, informer.SetTransform(cache.TransformStripManagedFields()))
	if err != nil {
		return watched{}, fmt.Errorf("watching %s: %w", kind.resource.Resource, err)
	}
	return watched{informer, registration.HasSynced}, nil
}

// sameSpec reports whether only the status and irrelevant metadata have changed.
// Changes of proposals are relevant, for the status of policies.
func sameSpec(old, object any) bool {
	before, err := meta.Accessor(old)
	after, err2 := meta.Accessor(object)
	return err == nil && err2 == nil && before.GetUID() == after.GetUID() && before.GetGeneration() == after.GetGeneration() &&
		before.GetAnnotations()[v1alpha1.AnnotationProposals] == after.GetAnnotations()[v1alpha1.AnnotationProposals]
}

// set returns the policies in force. The error is ErrUnknown.
func (s *source) set() (*certpolicy.Set, error) {
	current := s.current.Load()
	if current == nil {
		return nil, ErrUnknown
	}
	return current.set, nil
}

// change puts a change into force.
func (s *source) change(apply func() error) error {
	s.mu.Lock()
	err := apply()
	listed := s.listed
	if listed {
		s.publish()
	}
	s.mu.Unlock()
	if listed {
		s.changes.Tell(struct{}{})
	}
	return err
}

// publish has mu locked.
func (s *source) publish() {
	var policies []*certpolicy.Policy
	for _, p := range s.policies {
		policies = append(policies, p)
	}
	var exceptions []*certpolicy.Exception
	for _, x := range s.exceptions {
		exceptions = append(exceptions, x)
	}
	s.current.Store(&inForce{certpolicy.SetOf(policies, exceptions), s.compiledRequestPolicies(), s.clock.Now()})
}

func (s *source) putPolicy(loose *unstructured.Unstructured) error {
	p, err := PolicyFrom(loose)
	compiled, _, _ := certpolicy.Compile(p)
	s.policies[p.Name] = compiled
	return err
}

func (s *source) putException(loose *unstructured.Unstructured) error {
	x, err := ExceptionFrom(loose)
	compiled, _ := certpolicy.CompileException(x)
	s.exceptions[x.Name] = compiled
	return err
}

// PolicyFrom returns a policy that is stored without a Go type. With an error,
// it has only the metadata: such a policy is not valid.
func PolicyFrom(loose *unstructured.Unstructured) (*v1alpha1.CertificatePolicy, error) {
	p := &v1alpha1.CertificatePolicy{}
	err := from(loose, p)
	if err != nil {
		p = &v1alpha1.CertificatePolicy{}
		p.SetName(loose.GetName())
		p.SetUID(loose.GetUID())
		p.SetGeneration(loose.GetGeneration())
	}
	return p, err
}

// ExceptionFrom is PolicyFrom for exceptions.
func ExceptionFrom(loose *unstructured.Unstructured) (*v1alpha1.CertificatePolicyException, error) {
	x := &v1alpha1.CertificatePolicyException{}
	err := from(loose, x)
	if err != nil {
		x = &v1alpha1.CertificatePolicyException{}
		x.SetName(loose.GetName())
		x.SetUID(loose.GetUID())
	}
	return x, err
}

func from(loose *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, into)
}
