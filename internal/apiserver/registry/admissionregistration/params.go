package admissionregistration

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// ResourceOf finds the resource that serves a kind.
type ResourceOf func(schema.GroupVersionKind) (schema.GroupVersionResource, error)

// paramReaders makes sure that the author of a policy may read its parameters:
// a policy shows them in messages and decisions.
type paramReaders struct {
	authorizer authorizer.Authorizer
	resourceOf ResourceOf
	// policies are the stores where a binding finds its policy.
	mutating, validating *genericregistry.Store
}

// mayRead checks the parameters to which obj refers, unless old refers to the
// same.
func (p *paramReaders) mayRead(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	now, before := paramsOf(obj), paramsOf(old)
	if !now.any() || now.same(before) {
		return nil
	}
	path := field.NewPath("spec", "paramKind")
	check := p.mayReadKind
	if now.ref != nil {
		path, check = field.NewPath("spec", "paramRef"), p.mayReadRef
	}
	if err := check(ctx, now); err != nil {
		return field.ErrorList{field.Forbidden(path, err.Error())}
	}
	return nil
}

// params is the reference of an object to parameters: a policy refers to their
// kind, a binding to their names and, through its policy, to their kind.
type params struct {
	kind     *v1.ParamKind
	ref      *v1.ParamRef
	policy   string
	mutating bool
}

func (p params) any() bool { return p.kind != nil || p.ref != nil }

func (p params) same(other params) bool {
	return p.policy == other.policy && equality.Semantic.DeepEqual(p.kind, other.kind) && equality.Semantic.DeepEqual(p.ref, other.ref)
}

func paramsOf(obj runtime.Object) params {
	switch obj := obj.(type) {
	case *v1.MutatingAdmissionPolicy:
		return params{kind: obj.Spec.ParamKind}
	case *v1.ValidatingAdmissionPolicy:
		return params{kind: obj.Spec.ParamKind}
	case *v1.MutatingAdmissionPolicyBinding:
		return params{ref: obj.Spec.ParamRef, policy: obj.Spec.PolicyName, mutating: true}
	case *v1.ValidatingAdmissionPolicyBinding:
		return params{ref: obj.Spec.ParamRef, policy: obj.Spec.PolicyName}
	}
	return params{}
}

// mayReadKind requires the right to get every object of the kind.
func (p *paramReaders) mayReadKind(ctx context.Context, named params) error {
	what := p.resource(named.kind)
	what.Verb, what.Namespace, what.Name = "get", "*", "*"
	return p.authorize(ctx, what, "all objects of paramKind")
}

// mayReadRef requires the right to read the objects to which a binding refers.
// A binding may be created before its policy; its author must then be allowed
// to read whatever the policy will refer to.
func (p *paramReaders) mayReadRef(ctx context.Context, named params) error {
	kind, err := p.paramKind(ctx, named)
	if err != nil {
		kind = nil
	}
	what := p.resource(kind)
	what.Verb, what.Namespace, what.Name = "get", named.ref.Namespace, named.ref.Name
	if what.Name == "" {
		what.Verb = "list"
	}
	return p.authorize(ctx, what, "the object referenced by paramRef")
}

func (p *paramReaders) paramKind(ctx context.Context, named params) (*v1.ParamKind, error) {
	store := p.validating
	if named.mutating {
		store = p.mutating
	}
	policy, err := store.Get(ctx, named.policy, &metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading policy %s: %w", named.policy, err)
	}
	return paramsOf(policy).kind, nil
}

// resource returns the narrowest known attributes for kind.
func (p *paramReaders) resource(kind *v1.ParamKind) authorizer.AttributesRecord {
	what := authorizer.AttributesRecord{ResourceRequest: true, APIGroup: "*", APIVersion: "*", Resource: "*"}
	if kind == nil {
		return what
	}
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return what
	}
	what.APIGroup, what.APIVersion = gv.Group, gv.Version
	if gvr, err := p.resourceOf(gv.WithKind(kind.Kind)); err == nil {
		what.Resource = gvr.Resource
	}
	return what
}

func (p *paramReaders) authorize(ctx context.Context, what authorizer.AttributesRecord, named string) error {
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return errors.New("cannot identify user to authorize read access to parameters")
	}
	what.User = who
	decision, _, err := p.authorizer.Authorize(ctx, what)
	if err != nil {
		return fmt.Errorf("failed to authorize request: %w", err)
	}
	if decision != authorizer.DecisionAllow {
		return fmt.Errorf("user %q does not have %q permission on %s (%s)", who.GetName(), what.Verb, named,
			schema.GroupResource{Group: what.APIGroup, Resource: what.Resource})
	}
	return nil
}
