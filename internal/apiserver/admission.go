package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/apiserver/registry/admissionregistration"
	"github.com/certplane/certplane/internal/apiserver/revoking"
	"github.com/certplane/certplane/internal/policies"
)

// useAdmission configures the admission plugins of generic. It returns a
// function that finds the resource of a kind; the result changes as definitions
// are created and deleted.
func useAdmission(generic *genericapiserver.Config, cfg Config, client kubernetes.Interface, shared informers.SharedInformerFactory, revoker *revoking.Revoker) (*restmapper.DeferredDiscoveryRESTMapper, error) {
	loose, err := dynamic.NewForConfig(cfg.Loopback)
	if err != nil {
		return nil, fmt.Errorf("making the dynamic loopback client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	authorizer := generic.Authorization.Authorizer
	plugins, err := admission.New(cfg.Admission, authorizer,
		initializer.NewAPIServerIDInitializer(generic.APIServerID),
		initializer.New(client, loose, shared, authorizer, generic.FeatureGate, generic.EffectiveVersion, generic.DrainedNotify(), mapper),
		webhookinitializer.NewPluginInitializer(webhookCredentials(generic.TracerProvider), services{client.CoreV1()}),
		questionsExcluded{},
		policiesInitializer{cfg.Policies},
		revokerInitializer{revoker},
	)
	if err != nil {
		return nil, err
	}
	generic.AdmissionControl = plugins
	return mapper, generic.AddPostStartHook("admission-follows-discovery", followDiscovery(generic, mapper))
}

// followDiscovery resets mapper whenever the served resources change.
func followDiscovery(generic *genericapiserver.Config, mapper *restmapper.DeferredDiscoveryRESTMapper) genericapiserver.PostStartHookFunc {
	changed := make(chan struct{}, 1)
	// Discovery holds a lock during the call, so only send a notification.
	generic.AggregatedDiscoveryGroupManager.AddInvalidationCallback(func() {
		select {
		case changed <- struct{}{}:
		default: // a notification is pending already
		}
	})
	return func(hook genericapiserver.PostStartHookContext) error {
		go func() {
			for {
				select {
				case <-changed:
					mapper.Reset()
				case <-hook.Done():
					return
				}
			}
		}()
		return nil
	}
}

// resourceOf finds resources with mapper.
func resourceOf(mapper meta.RESTMapper) admissionregistration.ResourceOf {
	return func(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return schema.GroupVersionResource{}, fmt.Errorf("finding the resource of %s: %w", kind, err)
		}
		return mapping.Resource, nil
	}
}

// questionsExcluded excludes reviews from webhooks and policies: a webhook that
// refuses access reviews would block everything, including its own removal.
type questionsExcluded struct{}

func (questionsExcluded) Initialize(plugin genericadmission.Interface) {
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources([]schema.GroupResource{
			{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
			{Group: "authentication.k8s.io", Resource: "tokenreviews"},
			{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
			{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
			{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
			{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
		})
	}
}

// policiesInitializer gives plugins the certificate policies.
type policiesInitializer struct{ policies *policies.Policies }

func (i policiesInitializer) Initialize(plugin genericadmission.Interface) {
	if wants, ok := plugin.(admission.WantsPolicies); ok {
		wants.SetPolicies(i.policies, authenticatedIn, callIn)
	}
}
