package explain

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/policy/requests"
)

// IssuerFacts are the facts about the issuer that a request or a Certificate names.
type IssuerFacts struct {
	// Ref is the reference, with the defaults of the API.
	Ref cmmeta.IssuerReference
	// Exists is Unknown if the caller may not read the kind.
	Exists Result
	// Object is the issuer if its group is cert-manager.io and it can be read.
	Object cmv1.GenericIssuer
	// near is an issuer with the same name and the other kind, if the named issuer does
	// not exist; nil if neither exists.
	near *IssuerFacts
	// Events are the events of the issuer, if they were requested.
	Events Events

	namespace string
	// resource is the resource of the issuer's kind; its name is empty if no
	// API has the kind.
	resource certmanager.Resource
	// obstacle is the reason why an issuer of cert-manager.io cannot sign, and kind is
	// the type of the issuer.
	obstacle requests.Obstacle
	kind     certmanager.IssuerType
	// ready and message are from the Ready condition that issuers of other
	// groups have by convention. Without the condition, ready is Unknown.
	ready   Result
	message string
}

// findReferred finds an issuer that a request names as its signer.
func findReferred(ctx context.Context, api Reader, signer certmanager.Signer) (*IssuerFacts, error) {
	return findIssuer(ctx, api, cmmeta.IssuerReference{Name: signer.Name, Kind: signer.Kind}, signer.Namespace)
}

// findIssuer finds the issuer that an object in a namespace refers to.
func findIssuer(ctx context.Context, api Reader, ref cmmeta.IssuerReference, namespace string) (*IssuerFacts, error) {
	ref.Kind, ref.Group = certmanager.IssuerKind(ref), certmanager.IssuerGroup(ref)
	i := &IssuerFacts{Ref: ref, namespace: namespace, Exists: No, ready: Unknown}
	resource, err := api.Resource(ctx, certmanager.IssuerGroupKind(ref))
	switch {
	case errors.Is(err, certmanager.ErrNoResource):
		return i, nil
	case err != nil:
		return nil, err
	}
	i.resource = resource
	if !certmanager.IsBuiltIn(ref) {
		return i, i.readForeign(ctx, api)
	}
	issuer, err := certmanager.NewIssuer(ref.Kind)
	if err != nil {
		i.obstacle = requests.Obstacle{Reason: requests.ReasonNotFound, Message: err.Error()}
		return i, nil
	}
	if i.Exists, err = exists(ctx, api, i.key(), issuer); err != nil {
		return nil, err
	}
	switch i.Exists {
	case Unknown:
		return i, nil
	case Yes:
		i.Object, i.kind = issuer, certmanager.TypeOf(issuer.GetSpec())
	case No:
		err = i.findNear(ctx, api)
	}
	i.obstacle = requests.ObstacleOf(i.Object, i.signer(), i.signs)
	return i, err
}

// signs reports whether issuers of the type sign: all servers support some types, and the
// server that checked the issuer reports support for others.
func (i *IssuerFacts) signs(t certmanager.IssuerType) bool {
	ready := certmanager.IssuerCondition(i.Object, cmv1.IssuerConditionReady)
	return issuertypes.BuiltIn.Has(t) || ready != nil && ready.Reason != issuertypes.ReasonNotSupported
}

// findNear finds an issuer with the same name and the other kind: cert-manager.io has two
// kinds of issuers, which are easily confused.
func (i *IssuerFacts) findNear(ctx context.Context, api Reader) error {
	near := &IssuerFacts{Ref: i.Ref, namespace: i.namespace}
	near.Ref.Kind, near.resource.Namespaced = cmv1.ClusterIssuerKind, false
	if i.Ref.Kind == cmv1.ClusterIssuerKind {
		near.Ref.Kind, near.resource.Namespaced = cmv1.IssuerKind, true
	}
	if near.resource.Namespaced && i.namespace == "" {
		return nil // its namespace is unknown
	}
	issuer, err := certmanager.NewIssuer(near.Ref.Kind)
	if err != nil {
		return err
	}
	found, err := exists(ctx, api, near.key(), issuer)
	if found == Yes {
		i.near = near
	}
	return err
}

// key returns the namespace and name of the issuer.
func (i *IssuerFacts) key() client.ObjectKey {
	return client.ObjectKey{Namespace: i.where(), Name: i.Ref.Name}
}

// readForeign reads an issuer of another group.
func (i *IssuerFacts) readForeign(ctx context.Context, api Reader) error {
	issuer := &unstructured.Unstructured{}
	issuer.SetGroupVersionKind(certmanager.IssuerGroupKind(i.Ref).WithVersion(i.resource.Version))
	var err error
	if i.Exists, err = exists(ctx, api, i.key(), issuer); i.Exists == Yes {
		i.readCondition(issuer)
	}
	return err
}

// selfSigned reports whether the issuer signs with the keys of requests.
func (i *IssuerFacts) selfSigned() bool {
	t, _ := issuertypes.BuiltIn.Find(i.kind)
	return t.OwnKeys
}

func (i *IssuerFacts) readCondition(object *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		fields, _ := item.(map[string]any)
		if fields["type"] != string(cmv1.IssuerConditionReady) {
			continue
		}
		status, _ := fields["status"].(string)
		i.ready = resultOf(status)
		reason, _ := fields["reason"].(string)
		message, _ := fields["message"].(string)
		i.message = conditionText(reason, message)
	}
}

func (i *IssuerFacts) signer() certmanager.Signer {
	return certmanager.Signer{Kind: i.Ref.Kind, Namespace: i.where(), Name: i.Ref.Name}
}

// where returns the issuer's namespace; empty for cluster-wide issuers.
func (i *IssuerFacts) where() string {
	if i.resource.Namespaced || i.resource.Name == "" && i.Ref.Kind == cmv1.IssuerKind {
		return i.namespace
	}
	return ""
}

// resourceName returns the resource of the issuer's kind with its group.
func (i *IssuerFacts) resourceName() string { return i.resource.Name + "." + i.Ref.Group }

// String returns the name of the issuer.
func (i *IssuerFacts) String() string {
	kind := i.Ref.Kind
	if !certmanager.IsBuiltIn(i.Ref) {
		kind += "." + i.Ref.Group
	}
	text := kind + " " + i.Ref.Name
	if namespace := i.where(); namespace != "" {
		text += " in the namespace " + namespace
	}
	return text
}

// check returns the check whether the issuer can sign.
func (i *IssuerFacts) check() Check {
	switch builtIn := certmanager.IsBuiltIn(i.Ref); {
	case i.resource.Name == "":
		return Check{"issuer", No, fmt.Sprintf("no API has the kind %s of %s", i.Ref.Kind, i.Ref.Group)}
	case i.Exists == Unknown:
		return Check{"issuer", Unknown, mayNotRead("get", i.resourceName(), i.where())}
	case builtIn && !i.obstacle.None():
		return Check{"issuer", No, conditionText(i.obstacle.Reason, i.obstacle.Message) + i.nearHint()}
	case i.Exists == No:
		return Check{"issuer", No, fmt.Sprintf("%s does not exist", i)}
	case builtIn:
		return Check{"issuer", Yes, fmt.Sprintf("%s is ready", i)}
	case i.ready == Unknown:
		return Check{"issuer", Unknown, fmt.Sprintf("%s exists and does not report whether it is ready", i)}
	default:
		return Check{"issuer", i.ready, fmt.Sprintf("%s: %s", i, i.message)}
	}
}

// nearHint returns the name of a similar issuer.
func (i *IssuerFacts) nearHint() string {
	if i.near == nil {
		return ""
	}
	if namespace := i.near.where(); namespace != "" {
		return fmt.Sprintf("; an Issuer in the namespace %s has that name: is kind Issuer meant?", namespace)
	}
	return "; a ClusterIssuer has that name: is kind ClusterIssuer meant?"
}

// The next step if an object names the wrong issuer. Requests cannot be changed.
const (
	correctReference = "correct spec.issuerRef"
	anotherRequest   = "create a request that names another issuer"
)

// steps returns the next steps for an issuer that cannot sign. otherwise is the advice
// for a wrong issuer.
func (i *IssuerFacts) steps(q Query, otherwise string) []Step {
	names := i.resourceName()
	switch {
	case i.resource.Name == "":
		return []Step{{Text: fmt.Sprintf("Install the program that brings the kind %s of %s; if the name is wrong, %s.", i.Ref.Kind, i.Ref.Group, otherwise)}}
	case i.check().Result != No:
		return nil
	case i.Exists == No:
		return []Step{step("Create the issuer, or "+otherwise+". To list them:", q.kubectl(i.inNamespace("get", names)...))}
	case i.kind != certmanager.NoType && !i.signs(i.kind):
		return []Step{step(fmt.Sprintf("certplane signs for issuers of the types %s, not %s. Create one of these under another name and %s. To list them:", issuertypes.BuiltIn.Names("", "and"), i.kind, otherwise),
			q.kubectl(i.inNamespace("get", names)...))}
	default:
		return []Step{step("Fix the issuer; everything that waits for it then continues automatically. To see what it reports:", q.kubectl(i.inNamespace("describe", names, i.Ref.Name)...))}
	}
}

func (i *IssuerFacts) inNamespace(args ...string) []string {
	if namespace := i.where(); namespace != "" {
		return append(args, "-n", namespace)
	}
	return args
}
