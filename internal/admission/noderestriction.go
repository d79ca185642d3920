package admission

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/pki"
)

// nodeRestriction lets nodes write only what belongs to them: their own Node
// object and Lease, the pods that are bound to them, tokens for those pods and
// certificates in their own name. As in Kubernetes, it runs before the plugins
// that change objects, so that the node is not blamed for later changes.
type nodeRestriction struct {
	*admission.Handler
	authz   authorizer.UnconditionalAuthorizer
	pods    corelisters.PodLister
	nodes   corelisters.NodeLister
	objects podObjects
}

var (
	_ admission.MutationInterface                  = &nodeRestriction{}
	_ admission.InitializationValidator            = &nodeRestriction{}
	_ initializer.WantsExternalKubeInformerFactory = &nodeRestriction{}
	_ initializer.WantsExternalKubeClientSet       = &nodeRestriction{}
)

func newNodeRestriction(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &nodeRestriction{
		Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		authz:   authz,
	}
}

// SetExternalKubeInformerFactory sets the informers of pods and nodes.
func (p *nodeRestriction) SetExternalKubeInformerFactory(shared informers.SharedInformerFactory) {
	p.pods, p.nodes = shared.Core().V1().Pods().Lister(), shared.Core().V1().Nodes().Lister()
	p.objects.follow(shared)
}

// SetExternalKubeClientSet sets the client that reads the store.
func (p *nodeRestriction) SetExternalKubeClientSet(client kubernetes.Interface) {
	p.objects.live = client
}

// ValidateInitialization returns an error if something is missing.
func (p *nodeRestriction) ValidateInitialization() error {
	if p.pods == nil || p.nodes == nil || !p.objects.ready() {
		return errors.New("NodeRestriction needs informers and a client")
	}
	return nil
}

// restrictions are the resources that nodes may write only in part.
var restrictions = map[schema.GroupResource]func(p *nodeRestriction, ctx context.Context, node string, a admission.Attributes) error{
	corev1.Resource("pods"):                               (*nodeRestriction).admitPods,
	corev1.Resource("nodes"):                              (*nodeRestriction).admitNode,
	corev1.Resource("serviceaccounts"):                    (*nodeRestriction).admitToken,
	coordinationv1.Resource("leases"):                     (*nodeRestriction).admitLease,
	certificatesv1.Resource("certificatesigningrequests"): (*nodeRestriction).admitCSR,
	podRequests: (*nodeRestriction).admitPodRequest,
}

// Admit only refuses; it changes nothing.
func (p *nodeRestriction) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if node, limited := nodeid.JoiningOnly(a.GetUserInfo()); limited {
		return admitJoining(node, a)
	}
	node, isNode := nodeid.Of(a.GetUserInfo())
	if !isNode {
		return nil
	}
	if node == "" {
		return forbidden(a, "could not determine node from user %q", a.GetUserInfo().GetName())
	}
	if admit, restricted := restrictions[a.GetResource().GroupResource()]; restricted {
		return admit(p, ctx, node, a)
	}
	return nil
}

// admitJoining lets the holder of a bootstrap token for one node request the
// client certificate of that node, and no other certificate.
func admitJoining(node string, a admission.Attributes) error {
	if !isCSR(a, "") || a.GetOperation() != admission.Create {
		return nil
	}
	csr, err := asCSR(a, a.GetObject())
	if err != nil {
		return err
	}
	request, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return forbidden(a, "unable to parse csr: %w", err)
	}
	want := nodeid.UserPrefix + node
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || request.Subject.CommonName != want {
		return forbidden(a, "this bootstrap token is for node %q only: the request must be for %s, with CN=%s",
			node, certificatesv1.KubeAPIServerClientKubeletSignerName, want)
	}
	return nil
}

// admitCSR keeps a node from requesting certificates of other nodes. Signers
// that do not sign for nodes have their own rules.
func (p *nodeRestriction) admitCSR(_ context.Context, node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	csr, err := asCSR(a, a.GetObject())
	if err != nil {
		return err
	}
	if s := csr.Spec.SignerName; s != certificatesv1.KubeletServingSignerName && s != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	request, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return forbidden(a, "unable to parse csr: %w", err)
	}
	if want := nodeid.UserPrefix + node; request.Subject.CommonName != want {
		return forbidden(a, "can only create a node CSR with CN=%s", want)
	}
	return nil
}

// admitPodRequest lets a node request certificates only for the pods on it.
func (p *nodeRestriction) admitPodRequest(ctx context.Context, node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return forbidden(a, "unexpected operation %q, node %q can only create pod certificate requests", a.GetOperation(), node)
	}
	if a.GetSubresource() != "" {
		return forbidden(a, "unexpected subresource %q", a.GetSubresource())
	}
	request, ok := a.GetObject().(*podRequest)
	if !ok {
		return unexpected(a)
	}
	if string(request.Spec.NodeName) != node {
		return forbidden(a, "node %q can only create pod certificate requests with spec.nodeName set to itself", node)
	}
	return p.objects.check(ctx, request, a)
}

func (p *nodeRestriction) admitLease(_ context.Context, node string, a admission.Attributes) error {
	if a.GetNamespace() != corev1.NamespaceNodeLease {
		return forbidden(a, "can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	name := a.GetName()
	if a.GetOperation() == admission.Create { // only the object can have the name
		lease, ok := a.GetObject().(*coordinationv1.Lease)
		if !ok {
			return unexpected(a)
		}
		name = lease.Name
	}
	if name != node {
		return forbidden(a, "can only access node lease with the same name as the requesting node")
	}
	return nil
}

func forbidden(a admission.Attributes, format string, args ...any) error {
	return admission.NewForbidden(a, fmt.Errorf(format, args...))
}

// unexpected refuses an object of another type, which only a bug in the server
// can cause.
func unexpected(a admission.Attributes) error {
	return forbidden(a, "unexpected type %T", a.GetObject())
}
