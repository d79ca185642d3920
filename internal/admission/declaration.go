package admission

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
)

// declaration lets only Signers in that can work. What a schema can say about
// them is in their definition; this is the rest, and answers in the same form.
type declaration struct {
	*admission.Handler
	signers dynamic.ResourceInterface
}

var (
	_ admission.ValidationInterface  = &declaration{}
	_ initializer.WantsDynamicClient = &declaration{}

	declaredSigners = v1alpha1.GroupVersion.WithResource("signers")
)

func newDeclaration(authorizer.UnconditionalAuthorizer) admission.Interface {
	return &declaration{Handler: admission.NewHandler(admission.Create, admission.Update)}
}

// SetDynamicClient implements initializer.WantsDynamicClient.
func (p *declaration) SetDynamicClient(client dynamic.Interface) {
	if client != nil {
		p.signers = client.Resource(declaredSigners)
	}
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *declaration) ValidateInitialization() error {
	if p.signers == nil {
		return errors.New("missing the client that finds Signers")
	}
	return nil
}

// Validate looks at new specs alone: a Signer that was let in by other rules
// can still be labelled and deleted.
func (p *declaration) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != declaredSigners.GroupResource() || a.GetSubresource() != "" || sameSpec(a) {
		return nil
	}
	path := field.NewPath("spec")
	signer, err := asSigner(a.GetObject())
	if err != nil {
		return p.invalid(a, field.ErrorList{field.Invalid(path, "", err.Error())})
	}
	_, errs := profile.Compile(signer.Spec, path)
	if a.GetOperation() == admission.Create {
		errs = append(errs, p.checkUnique(ctx, signer, path.Child("signerName"))...)
	}
	if len(errs) > 0 {
		return p.invalid(a, errs)
	}
	return nil
}

func (p *declaration) invalid(a admission.Attributes, errs field.ErrorList) error {
	return apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), errs)
}

// checkUnique refuses a second Signer of one name. Of two that are created in
// the same moment, only the older one signs.
func (p *declaration) checkUnique(ctx context.Context, signer *v1alpha1.Signer, path *field.Path) field.ErrorList {
	name := signer.Spec.SignerName
	others, err := p.signers.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.signerName", name).String()})
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("looking for other Signers of this name: %w", err))}
	}
	for _, other := range others.Items {
		if other.GetName() != signer.Name {
			detail := fmt.Sprintf("the Signer %s declares it already: delete that one first, or use another name", other.GetName())
			return field.ErrorList{&field.Error{Type: field.ErrorTypeDuplicate, Field: path.String(), BadValue: name, Detail: detail}}
		}
	}
	return nil
}

func sameSpec(a admission.Attributes) bool {
	before, ok := a.GetOldObject().(*unstructured.Unstructured)
	after, also := a.GetObject().(*unstructured.Unstructured)
	return ok && also && before != nil && reflect.DeepEqual(before.Object["spec"], after.Object["spec"])
}

// asSigner reads a custom resource, which is stored without a Go type.
func asSigner(object runtime.Object) (*v1alpha1.Signer, error) {
	loose, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("expected a custom resource, got %T", object)
	}
	signer := &v1alpha1.Signer{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, signer); err != nil {
		return nil, err
	}
	return signer, nil
}
