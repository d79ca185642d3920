package admission

import (
	"sync"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/tools/cache"
)

// policySchemas keeps the library's plugin of mutating policies from asking for the
// OpenAPI documents of all groups before there is a policy: it asks every five seconds,
// from the start on, and they take time to build and memory as long as they are asked
// for. Nothing is missed, as the plugin asks at once when the first policy is seen.
type policySchemas struct {
	// wanted is closed when there is a policy.
	wanted chan struct{}
	once   sync.Once
	// drained ends all waits.
	drained <-chan struct{}
}

func newPolicySchemas() *policySchemas { return &policySchemas{wanted: make(chan struct{})} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p keyKeepingPolicy) SetExternalKubeInformerFactory(all informers.SharedInformerFactory) {
	p.Plugin.SetExternalKubeInformerFactory(all)
	// A handler cannot be added to an informer that has ended; no policy is seen then.
	_, _ = all.Admissionregistration().V1().MutatingAdmissionPolicies().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.schemas.once.Do(func() { close(p.schemas.wanted) }) },
	})
}

// SetDrainedNotification implements initializer.WantsDrainedNotification.
func (p keyKeepingPolicy) SetDrainedNotification(drained <-chan struct{}) {
	p.Plugin.SetDrainedNotification(drained)
	p.schemas.drained = drained
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p keyKeepingPolicy) SetExternalKubeClientSet(client kubernetes.Interface) {
	p.Plugin.SetExternalKubeClientSet(patientClient{client, p.schemas})
}

// patientClient, patientDiscovery and patientSchemas are clients whose list of OpenAPI
// documents arrives when it is wanted.
type patientClient struct {
	kubernetes.Interface
	schemas *policySchemas
}

// Discovery implements kubernetes.Interface.
func (c patientClient) Discovery() discovery.DiscoveryInterfaces {
	return patientDiscovery{c.Interface.Discovery(), c.schemas}
}

type patientDiscovery struct {
	discovery.DiscoveryInterfaces
	schemas *policySchemas
}

// OpenAPIV3 implements discovery.OpenAPIV3SchemaInterface.
func (d patientDiscovery) OpenAPIV3() openapi.Client {
	return patientSchemas{d.DiscoveryInterfaces.OpenAPIV3(), d.schemas}
}

type patientSchemas struct {
	openapi.Client
	schemas *policySchemas
}

// Paths implements openapi.Client.
func (s patientSchemas) Paths() (map[string]openapi.GroupVersion, error) {
	select {
	case <-s.schemas.wanted:
		return s.Client.Paths()
	case <-s.schemas.drained:
		return nil, nil
	}
}
