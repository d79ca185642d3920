package admissionregistration

import (
	"context"
	"time"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/admissionregistration"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// object is a pointer to T that is an API object.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// withCommonRules completes k with the rules that the six kinds share. spec returns the spec
// of an object; each change of it increments the generation.
func withCommonRules[T, L any, P object[T]](k kind.Kind[T, L], spec func(P) any) kind.Kind[T, L] {
	k.Version = v1.SchemeGroupVersion
	k.Categories = []string{"api-extensions"}
	k.NeedsResourceVersion = true
	prepareCreate, prepareUpdate := k.PrepareCreate, k.PrepareUpdate
	k.PrepareCreate = func(obj *T) {
		P(obj).SetGeneration(1)
		if prepareCreate != nil {
			prepareCreate(obj)
		}
	}
	k.PrepareUpdate = func(obj, old *T) {
		if prepareUpdate != nil {
			prepareUpdate(obj, old)
		}
		if !equality.Semantic.DeepEqual(spec(obj), spec(old)) {
			P(obj).SetGeneration(P(old).GetGeneration() + 1)
		}
	}
	k.Validate = func(obj *T) field.ErrorList { return admissionregistration.Validate(P(obj)) }
	k.ValidateUpdate = func(obj, old *T) field.ErrorList {
		return admissionregistration.ValidateUpdate(P(obj), P(old))
	}
	return k
}

// reads returns a check that the author of an object may read the parameters to
// which it refers.
func reads[T any, P object[T]](params *paramReaders) func(context.Context, *T, *T) field.ErrorList {
	return func(ctx context.Context, obj, old *T) field.ErrorList {
		if old == nil {
			return params.mayRead(ctx, P(obj), nil)
		}
		return params.mayRead(ctx, P(obj), P(old))
	}
}

func mutatingWebhooks() kind.Kind[v1.MutatingWebhookConfiguration, v1.MutatingWebhookConfigurationList] {
	type T = v1.MutatingWebhookConfiguration
	return withCommonRules(kind.Kind[T, v1.MutatingWebhookConfigurationList]{
		Plural: "mutatingwebhookconfigurations", Singular: "mutatingwebhookconfiguration",
		Table: table(webhookColumns, func(c *T) []any { return []any{int64(len(c.Webhooks))} }),
	}, func(c *T) any { return c.Webhooks })
}

func validatingWebhooks() kind.Kind[v1.ValidatingWebhookConfiguration, v1.ValidatingWebhookConfigurationList] {
	type T = v1.ValidatingWebhookConfiguration
	return withCommonRules(kind.Kind[T, v1.ValidatingWebhookConfigurationList]{
		Plural: "validatingwebhookconfigurations", Singular: "validatingwebhookconfiguration",
		Table: table(webhookColumns, func(c *T) []any { return []any{int64(len(c.Webhooks))} }),
	}, func(c *T) any { return c.Webhooks })
}

func mutatingPolicies(params *paramReaders) kind.Kind[v1.MutatingAdmissionPolicy, v1.MutatingAdmissionPolicyList] {
	type T = v1.MutatingAdmissionPolicy
	return withCommonRules(kind.Kind[T, v1.MutatingAdmissionPolicyList]{
		Plural: "mutatingadmissionpolicies", Singular: "mutatingadmissionpolicy",
		Check: reads[T](params),
		Table: table(policyColumns("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"),
			func(p *T) []any { return []any{int64(len(p.Spec.Mutations)), paramKind(p.Spec.ParamKind)} }),
	}, func(p *T) any { return p.Spec })
}

func validatingPolicies(params *paramReaders) kind.Kind[v1.ValidatingAdmissionPolicy, v1.ValidatingAdmissionPolicyList] {
	type T = v1.ValidatingAdmissionPolicy
	return withCommonRules(kind.Kind[T, v1.ValidatingAdmissionPolicyList]{
		Plural: "validatingadmissionpolicies", Singular: "validatingadmissionpolicy",
		PrepareCreate: func(p *T) { p.Status = v1.ValidatingAdmissionPolicyStatus{} },
		Check:         reads[T](params),
		Update:        kind.Update[T]{PrepareUpdate: func(p, old *T) { p.Status = old.Status }, Resets: []string{"status"}},
		Subresources: map[string]kind.Update[T]{"status": {
			PrepareUpdate: func(p, old *T) {
				p.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: func(p, _ *T) field.ErrorList { return admissionregistration.ValidateStatus(&p.Status) },
			Resets:         []string{"spec", "metadata"},
		}},
		Table: table(policyColumns("Validations", "Validations indicates the number of validation rules defined in this configuration"),
			func(p *T) []any { return []any{int64(len(p.Spec.Validations)), paramKind(p.Spec.ParamKind)} }),
	}, func(p *T) any { return p.Spec })
}

func mutatingBindings(params *paramReaders) kind.Kind[v1.MutatingAdmissionPolicyBinding, v1.MutatingAdmissionPolicyBindingList] {
	type T = v1.MutatingAdmissionPolicyBinding
	return withCommonRules(kind.Kind[T, v1.MutatingAdmissionPolicyBindingList]{
		Plural: "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding",
		Check: reads[T](params),
		Table: table(bindingColumns, func(b *T) []any { return []any{b.Spec.PolicyName, paramRef(b.Spec.ParamRef)} }),
	}, func(b *T) any { return b.Spec })
}

func validatingBindings(params *paramReaders) kind.Kind[v1.ValidatingAdmissionPolicyBinding, v1.ValidatingAdmissionPolicyBindingList] {
	type T = v1.ValidatingAdmissionPolicyBinding
	return withCommonRules(kind.Kind[T, v1.ValidatingAdmissionPolicyBindingList]{
		Plural: "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding",
		Check: reads[T](params),
		Table: table(bindingColumns, func(b *T) []any { return []any{b.Spec.PolicyName, paramRef(b.Spec.ParamRef)} }),
	}, func(b *T) any { return b.Spec })
}

var (
	webhookColumns = []metav1.TableColumnDefinition{
		count("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
	}
	bindingColumns = []metav1.TableColumnDefinition{
		kind.Column("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		kind.Column("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
	}
)

func policyColumns(name, description string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		count(name, description),
		kind.Column("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
	}
}

func count(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

// table returns a table with columns between the name and the age of an object.
func table[T any, P object[T]](columns []metav1.TableColumnDefinition, cells func(P) []any) kind.Table[T] {
	all := append([]metav1.TableColumnDefinition{kind.Name()}, columns...)
	return kind.Table[T]{
		Columns: append(all, kind.AgeColumn()),
		Cells: func(obj *T, now time.Time) []any {
			return append(append([]any{P(obj).GetName()}, cells(obj)...), kind.Age(P(obj).GetCreationTimestamp(), now))
		},
	}
}

const unset = "<unset>"

func paramKind(kind *v1.ParamKind) string {
	if kind == nil {
		return unset
	}
	return kind.APIVersion + "/" + kind.Kind
}

// paramRef does not distinguish parameters of any namespace from cluster-scoped
// ones.
func paramRef(ref *v1.ParamRef) string {
	switch {
	case ref == nil:
		return unset
	case ref.Name != "" && ref.Namespace != "":
		return ref.Namespace + "/" + ref.Name
	case ref.Name != "":
		return "*/" + ref.Name
	case ref.Selector != nil:
		return ref.Selector.String()
	}
	return unset
}
