package admissionregistration

import (
	"context"
	"fmt"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// columns are what kubectl shows between an object's name and its age.
type columns struct {
	definitions []metav1.TableColumnDefinition
	cells       func(runtime.Object) []any
}

const unset = "<unset>"

var (
	webhookColumns = columns{
		definitions: []metav1.TableColumnDefinition{
			{Name: "Webhooks", Type: "integer", Description: "Webhooks indicates the number of webhooks registered in this configuration"},
		},
		cells: func(obj runtime.Object) []any {
			if c, ok := obj.(*v1.MutatingWebhookConfiguration); ok {
				return []any{int64(len(c.Webhooks))}
			}
			return []any{int64(len(obj.(*v1.ValidatingWebhookConfiguration).Webhooks))}
		},
	}
	paramKindColumn       = metav1.TableColumnDefinition{Name: "ParamKind", Type: "string", Description: "ParamKind specifies the kind of resources used to parameterize this policy"}
	mutatingPolicyColumns = columns{
		definitions: []metav1.TableColumnDefinition{
			{Name: "Mutations", Type: "integer", Description: "Mutation indicates the number of mutations rules defined in this configuration"},
			paramKindColumn,
		},
		cells: func(obj runtime.Object) []any {
			spec := obj.(*v1.MutatingAdmissionPolicy).Spec
			return []any{int64(len(spec.Mutations)), paramKind(spec.ParamKind)}
		},
	}
	validatingPolicyColumns = columns{
		definitions: []metav1.TableColumnDefinition{
			{Name: "Validations", Type: "integer", Description: "Validations indicates the number of validation rules defined in this configuration"},
			paramKindColumn,
		},
		cells: func(obj runtime.Object) []any {
			spec := obj.(*v1.ValidatingAdmissionPolicy).Spec
			return []any{int64(len(spec.Validations)), paramKind(spec.ParamKind)}
		},
	}
	bindingColumns = columns{
		definitions: []metav1.TableColumnDefinition{
			{Name: "PolicyName", Type: "string", Description: "PolicyName indicates the policy definition which the policy binding binded to"},
			{Name: "ParamRef", Type: "string", Description: "ParamRef indicates the param resource which sets the configuration param"},
		},
		cells: func(obj runtime.Object) []any {
			if b, ok := obj.(*v1.MutatingAdmissionPolicyBinding); ok {
				return []any{b.Spec.PolicyName, paramRef(b.Spec.ParamRef)}
			}
			spec := obj.(*v1.ValidatingAdmissionPolicyBinding).Spec
			return []any{spec.PolicyName, paramRef(spec.ParamRef)}
		},
	}
)

func paramKind(kind *v1.ParamKind) string {
	if kind == nil {
		return unset
	}
	return kind.APIVersion + "/" + kind.Kind
}

// paramRef cannot tell parameters of any namespace from those of none.
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

// ConvertToTable makes a row of each object in obj.
func (c columns) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	rows, err := metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		return append(append([]any{name}, c.cells(obj)...), age), nil
	})
	if err != nil {
		return nil, fmt.Errorf("printing %T: %w", obj, err)
	}
	table := &metav1.Table{Rows: rows}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		table.ColumnDefinitions = c.headers()
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if object, err := meta.CommonAccessor(obj); err == nil {
		table.ResourceVersion = object.GetResourceVersion()
	}
	return table, nil
}

func (c columns) headers() []metav1.TableColumnDefinition {
	metadata := metav1.ObjectMeta{}.SwaggerDoc()
	headers := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: metadata["name"]}}
	headers = append(headers, c.definitions...)
	return append(headers, metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metadata["creationTimestamp"]})
}
