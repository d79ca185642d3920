package explain

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
)

// issuerFacts are what is known of the issuer that a request or a Certificate
// names.
type issuerFacts struct {
	ref       cmmeta.IssuerReference
	namespace string
	// resource is that of the issuer's kind; its name is empty if nobody serves
	// the kind.
	resource certmanager.Resource
	// exists is Unknown to whoever may not read the kind.
	exists Result
	// obstacle is what keeps an issuer of cert-manager.io from signing, and kind of
	// which type it is.
	obstacle requests.Obstacle
	kind     certmanager.IssuerType
	// ready and message are those of the Ready condition that issuers of other
	// groups have by convention. Without one it is Unknown.
	ready   Result
	message string
	// near is an issuer of the same name and of the other kind, where there is none
	// of this one; nil if there is none either.
	near *issuerFacts
}

// findIssuer finds the issuer that an object of a namespace refers to.
func findIssuer(ctx context.Context, clients *Clients, ref cmmeta.IssuerReference, namespace string) (*issuerFacts, error) {
	i := &issuerFacts{ref: ref, namespace: namespace, exists: No, ready: Unknown}
	kinds := discovery.ToDiscoveryInterfaceWithContext(clients.Kubernetes.Discovery())
	resource, _, err := certmanager.FindResource(ctx, kinds, certmanager.IssuerGroupKind(ref))
	switch {
	case errors.Is(err, certmanager.ErrNoResource):
		return i, nil
	case err != nil:
		return nil, err
	}
	i.resource = resource
	object, err := i.client(clients).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		i.exists = Unknown
		return i, nil
	case apierrors.IsNotFound(err):
		if err := i.findNear(ctx, clients); err != nil {
			return nil, err
		}
		return i, i.judge(nil)
	case err != nil:
		return nil, err
	}
	i.exists = Yes
	return i, i.judge(object)
}

// findNear looks for what may be meant: there are two kinds of issuers in
// cert-manager.io, and one is easily named for the other.
func (i *issuerFacts) findNear(ctx context.Context, clients *Clients) error {
	if !certmanager.IsBuiltIn(i.ref) {
		return nil
	}
	other := &issuerFacts{ref: i.ref, namespace: i.namespace}
	other.resource = certmanager.Resource{Version: i.resource.Version, Name: "clusterissuers"}
	if other.ref.Kind = cmv1.ClusterIssuerKind; certmanager.IssuerKind(i.ref) == cmv1.ClusterIssuerKind {
		other.ref.Kind = cmv1.IssuerKind
		other.resource.Name, other.resource.Namespaced = "issuers", true
	}
	if other.where() == "" && other.resource.Namespaced {
		return nil // nobody knows of which namespace
	}
	_, err := other.client(clients).Get(ctx, i.ref.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		i.near = other
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return err
	}
	return nil
}

func (i *issuerFacts) client(clients *Clients) dynamic.ResourceInterface {
	resource := schema.GroupVersionResource{Group: certmanager.IssuerGroup(i.ref), Version: i.resource.Version, Resource: i.resource.Name}
	return clients.Dynamic.Resource(resource).Namespace(i.where())
}

// judge says whether the issuer can sign, as far as others than itself know.
func (i *issuerFacts) judge(object *unstructured.Unstructured) error {
	if !certmanager.IsBuiltIn(i.ref) {
		i.readCondition(object)
		return nil
	}
	if object == nil {
		i.obstacle = requests.ObstacleOf(nil, i.signer())
		return nil
	}
	issuer, err := certmanager.NewIssuer(certmanager.IssuerKind(i.ref))
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, issuer); err != nil {
		return fmt.Errorf("reading %s: %w", i, err)
	}
	i.obstacle = requests.ObstacleOf(issuer, i.signer())
	i.kind = certmanager.TypeOf(issuer.GetSpec())
	return nil
}

// selfSigned tells that the issuer signs with the keys of requests.
func (i *issuerFacts) selfSigned() bool { return i.kind == certmanager.TypeSelfSigned }

func (i *issuerFacts) readCondition(object *unstructured.Unstructured) {
	if object == nil {
		return
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		fields, _ := item.(map[string]any)
		if fields["type"] != "Ready" {
			continue
		}
		i.ready = map[any]Result{"True": Yes, "False": No}[fields["status"]]
		if i.ready == "" {
			i.ready = Unknown
		}
		reason, _ := fields["reason"].(string)
		message, _ := fields["message"].(string)
		i.message = said(reason, message)
	}
}

func (i *issuerFacts) signer() certmanager.Signer {
	return certmanager.Signer{Kind: certmanager.IssuerKind(i.ref), Namespace: i.where(), Name: i.ref.Name}
}

// where is the issuer's namespace; empty for those of the whole cluster.
func (i *issuerFacts) where() string {
	if i.resource.Namespaced || i.resource.Name == "" && certmanager.IssuerKind(i.ref) == cmv1.IssuerKind {
		return i.namespace
	}
	return ""
}

// String names the issuer.
func (i *issuerFacts) String() string {
	text := certmanager.IssuerKind(i.ref) + " " + i.ref.Name
	if !certmanager.IsBuiltIn(i.ref) {
		text = certmanager.IssuerKind(i.ref) + "." + i.ref.Group + " " + i.ref.Name
	}
	if namespace := i.where(); namespace != "" {
		text += " in the namespace " + namespace
	}
	return text
}

// check says whether the issuer can sign.
func (i *issuerFacts) check() Check {
	switch builtIn := certmanager.IsBuiltIn(i.ref); {
	case i.resource.Name == "":
		return Check{"issuer", No, fmt.Sprintf("no API has the kind %s of %s", certmanager.IssuerKind(i.ref), certmanager.IssuerGroup(i.ref))}
	case i.exists == Unknown:
		return Check{"issuer", Unknown, fmt.Sprintf("you may not get %s.%s", i.resource.Name, certmanager.IssuerGroup(i.ref))}
	case builtIn && !i.obstacle.None():
		return Check{"issuer", No, said(i.obstacle.Reason, i.obstacle.Message) + i.meant()}
	case i.exists == No:
		return Check{"issuer", No, fmt.Sprintf("there is no %s", i)}
	case builtIn:
		return Check{"issuer", Yes, fmt.Sprintf("%s is ready", i)}
	case i.ready == Unknown:
		return Check{"issuer", Unknown, fmt.Sprintf("%s exists; whether it is ready it does not say", i)}
	default:
		return Check{"issuer", i.ready, fmt.Sprintf("%s: %s", i, i.message)}
	}
}

// meant names the issuer that may be meant.
func (i *issuerFacts) meant() string {
	if i.near == nil {
		return ""
	}
	if namespace := i.near.where(); namespace != "" {
		return fmt.Sprintf("; there is an Issuer of that name in the namespace %s: is kind Issuer meant?", namespace)
	}
	return "; there is a ClusterIssuer of that name: is kind ClusterIssuer meant?"
}

// What to do where an object names the wrong issuer: those that are requests
// cannot be changed.
const (
	correctReference = "correct spec.issuerRef"
	anotherRequest   = "make another request that names another issuer"
)

// steps are what to do about an issuer that cannot sign, or otherwise.
func (i *issuerFacts) steps(cfg Config, otherwise string) []Step {
	names := i.resource.Name + "." + certmanager.IssuerGroup(i.ref)
	switch check := i.check(); {
	case i.resource.Name == "":
		return []Step{{Text: fmt.Sprintf("Install the program that brings the kind %s of %s; if the name is wrong, %s.", certmanager.IssuerKind(i.ref), certmanager.IssuerGroup(i.ref), otherwise)}}
	case check.Result != No:
		return nil
	case i.exists == No:
		return []Step{step("Create the issuer, or "+otherwise+". To see which there are:", cfg.kubectl(i.inNamespace("get", names)...))}
	case i.kind != certmanager.NoType && !i.kind.Supported():
		return []Step{step(fmt.Sprintf("certplane signs for issuers of the types ca and selfSigned, not %s. Create one of these under another name and %s. To see which there are:", i.kind, otherwise),
			cfg.kubectl(i.inNamespace("get", names)...))}
	default:
		return []Step{step("Mend the issuer; what waits for it goes on by itself. To see what it says:", cfg.kubectl(i.inNamespace("describe", names, i.ref.Name)...))}
	}
}

func (i *issuerFacts) inNamespace(args ...string) []string {
	if namespace := i.where(); namespace != "" {
		return append(args, "-n", namespace)
	}
	return args
}
