package admission

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/admission/certpolicy"
)

var podRequests = certpolicy.PodRequestsResource

// podIdentity checks that PodCertificateRequests are true about their pods,
// whichever client writes them: signers put these facts into certificates. It
// checks the object after all plugins that could change it.
type podIdentity struct {
	*admission.Handler
	objects podObjects
}

var (
	_ admission.ValidationInterface                = &podIdentity{}
	_ admission.InitializationValidator            = &podIdentity{}
	_ initializer.WantsExternalKubeInformerFactory = &podIdentity{}
	_ initializer.WantsExternalKubeClientSet       = &podIdentity{}
)

func newPodIdentity(authorizer.UnconditionalAuthorizer) admission.Interface {
	return &podIdentity{Handler: admission.NewHandler(admission.Create)}
}

// SetExternalKubeInformerFactory sets the informer of pods.
func (p *podIdentity) SetExternalKubeInformerFactory(shared informers.SharedInformerFactory) {
	p.objects.follow(shared)
}

// SetExternalKubeClientSet sets the client that reads the store.
func (p *podIdentity) SetExternalKubeClientSet(client kubernetes.Interface) { p.objects.live = client }

// ValidateInitialization returns an error if something is missing.
func (p *podIdentity) ValidateInitialization() error {
	if !p.objects.ready() {
		return errors.New("PodCertificateIdentity needs informers and a client")
	}
	return nil
}

// Validate refuses requests that are not true about their pods.
func (p *podIdentity) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != podRequests || a.GetSubresource() != "" {
		return nil
	}
	request, ok := a.GetObject().(*podRequest)
	if !ok {
		return unexpected(a)
	}
	return p.objects.check(ctx, request, a)
}
