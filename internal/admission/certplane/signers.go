// Package certplane decides which Signers and objects of the ACME server may be stored,
// and by which users. Their definitions contain the rules that a schema can express.
// The package has the others, and its errors have the same form.
package certplane

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
)

// WebhookName is part of refusals that come from a webhook.
const WebhookName = "webhook." + v1alpha1.GroupName

// Resource is the resource of Signers.
var Resource = v1alpha1.GroupVersion.WithResource("signers")

// Checks checks Signers. It is safe for concurrent use.
type Checks struct{ signers dynamic.ResourceInterface }

// New returns checks that find other Signers with client.
func New(client dynamic.Interface) *Checks { return &Checks{client.Resource(Resource)} }

// Request is a write of a Signer.
type Request struct {
	Operation   admissionv1.Operation
	Subresource string
	// Name is empty if the API server generates it.
	Name string
	// Object is the new Signer and Old the stored one; each may be nil.
	Object, Old *unstructured.Unstructured
}

// Validate refuses a Signer that cannot work, with the status Invalid and a
// cause for each field. It checks only new specs: a Signer that was accepted
// under other rules can still be labelled and deleted.
func (c *Checks) Validate(ctx context.Context, r Request) *apierrors.StatusError {
	if !writes(r.Operation) || r.Subresource != "" || r.sameSpec() {
		return nil
	}
	path := field.NewPath("spec")
	signer, err := asSigner(r.Object)
	if err != nil {
		return r.invalid(field.ErrorList{field.Invalid(path, "", err.Error())})
	}
	_, errs := profile.Compile(signer.Spec, path)
	if r.Operation == admissionv1.Create {
		errs = append(errs, c.checkUnique(ctx, signer, path.Child("signerName"))...)
	}
	if len(errs) > 0 {
		return r.invalid(errs)
	}
	return nil
}

func writes(operation admissionv1.Operation) bool {
	return operation == admissionv1.Create || operation == admissionv1.Update
}

func (r Request) invalid(errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Signer").GroupKind(), r.Name, errs)
}

func (r Request) sameSpec() bool {
	return r.Old != nil && r.Object != nil && reflect.DeepEqual(r.Old.Object["spec"], r.Object.Object["spec"])
}

// checkUnique refuses a second Signer of the same name. If two are created at
// the same moment, only the older one signs. Signers are few, so checkUnique
// lists all of them: not every API server selects custom resources by their
// fields.
func (c *Checks) checkUnique(ctx context.Context, signer *v1alpha1.Signer, path *field.Path) field.ErrorList {
	name := signer.Spec.SignerName
	others, err := c.signers.List(ctx, metav1.ListOptions{})
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("looking for other Signers of this name: %w", err))}
	}
	for _, other := range others.Items {
		theirs, _, _ := unstructured.NestedString(other.Object, "spec", "signerName")
		if theirs == name && other.GetName() != signer.Name {
			detail := fmt.Sprintf("the Signer %s declares it already: delete that one first, or use another name", other.GetName())
			return field.ErrorList{&field.Error{Type: field.ErrorTypeDuplicate, Field: path.String(), BadValue: name, Detail: detail}}
		}
	}
	return nil
}

// asSigner converts a custom resource, which is stored without a Go type.
func asSigner(loose *unstructured.Unstructured) (*v1alpha1.Signer, error) {
	if loose == nil {
		return nil, errors.New("the request has no object")
	}
	signer := &v1alpha1.Signer{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, signer); err != nil {
		return nil, err
	}
	return signer, nil
}
