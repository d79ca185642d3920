package certmanager

import (
	"errors"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// validator is how the objects of a resource are checked.
type validator struct {
	kind   string
	empty  func() runtime.Object
	create func(runtime.Object) (field.ErrorList, []string)
	update func(object, old runtime.Object) (field.ErrorList, []string)
}

// objects are those of a request in their Go types. old is nil when something
// is created.
type objects struct{ new, old runtime.Object }

var validators = map[schema.GroupResource]validator{
	requestsResource: {
		kind: "CertificateRequest", empty: func() runtime.Object { return &cmv1.CertificateRequest{} },
		create: creating(api.ValidateRequest), update: updating(api.ValidateRequestUpdate),
	},
	{Group: api.Group, Resource: "certificates"}: {
		kind: "Certificate", empty: func() runtime.Object { return &cmv1.Certificate{} },
		create: creating(api.ValidateCertificate), update: updating(api.ValidateCertificateUpdate),
	},
	{Group: api.Group, Resource: "issuers"}: {
		kind: cmv1.IssuerKind, empty: func() runtime.Object { return &cmv1.Issuer{} },
		create: createIssuer, update: updateIssuer,
	},
	{Group: api.Group, Resource: "clusterissuers"}: {
		kind: cmv1.ClusterIssuerKind, empty: func() runtime.Object { return &cmv1.ClusterIssuer{} },
		create: createIssuer, update: updateIssuer,
	},
	{Group: api.ACMEGroup, Resource: "orders"}: {
		kind: acmev1.OrderKind, empty: func() runtime.Object { return &acmev1.Order{} },
		create: anything, update: updating(api.ValidateOrderUpdate),
	},
	{Group: api.ACMEGroup, Resource: "challenges"}: {
		kind: acmev1.ChallengeKind, empty: func() runtime.Object { return &acmev1.Challenge{} },
		create: anything, update: updating(api.ValidateChallengeUpdate),
	},
}

func creating[T runtime.Object](validate func(T) field.ErrorList) func(runtime.Object) (field.ErrorList, []string) {
	return func(object runtime.Object) (field.ErrorList, []string) { return validate(object.(T)), nil }
}

func updating[T runtime.Object](validate func(object, old T) field.ErrorList) func(object, old runtime.Object) (field.ErrorList, []string) {
	return func(object, old runtime.Object) (field.ErrorList, []string) {
		return validate(object.(T), old.(T)), nil
	}
}

func createIssuer(object runtime.Object) (field.ErrorList, []string) {
	return api.ValidateIssuer(object.(cmv1.GenericIssuer))
}

func updateIssuer(object, old runtime.Object) (field.ErrorList, []string) {
	return api.ValidateIssuerUpdate(object.(cmv1.GenericIssuer), old.(cmv1.GenericIssuer))
}

// anything leaves it to the definition's schema.
func anything(runtime.Object) (field.ErrorList, []string) { return nil, nil }

func (v validator) validate(r Request, o objects) (field.ErrorList, []string) {
	if r.Operation == admissionv1.Create {
		return v.create(o.new)
	}
	return v.update(o.new, o.old)
}

func (v validator) decode(r Request) (objects, error) {
	object, err := v.typed(r.Object)
	if err != nil || r.Operation == admissionv1.Create {
		return objects{new: object}, err
	}
	old, err := v.typed(r.Old)
	return objects{object, old}, err
}

func (v validator) typed(object *unstructured.Unstructured) (runtime.Object, error) {
	if object == nil {
		return nil, errors.New("the request has no object")
	}
	typed := v.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", v.kind, err)
	}
	return typed, nil
}
