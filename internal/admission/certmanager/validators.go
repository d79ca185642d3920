package certmanager

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// validator checks the objects of a resource.
type validator struct {
	kind   string
	empty  func() runtime.Object
	create func(runtime.Object) (field.ErrorList, []string)
	update func(object, old runtime.Object) (field.ErrorList, []string)
}

// objects are the objects of a request in their Go types. old is nil at creation.
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
		create: acceptAny, update: updating(api.ValidateOrderUpdate),
	},
	{Group: api.ACMEGroup, Resource: "challenges"}: {
		kind: acmev1.ChallengeKind, empty: func() runtime.Object { return &acmev1.Challenge{} },
		create: acceptAny, update: updating(api.ValidateChallengeUpdate),
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

// acceptAny accepts every object: the definition's schema checks it.
func acceptAny(runtime.Object) (field.ErrorList, []string) { return nil, nil }

func (v validator) validate(r Request, o objects) (field.ErrorList, []string) {
	if r.Operation == admissionv1.Create {
		return v.create(o.new)
	}
	return v.update(o.new, o.old)
}

// decode refuses unknown fields. The schemas of definitions have dropped most
// of them, but leave some stanzas to this function. A spec that does not change
// may have them, because its status must remain writable.
func (v validator) decode(r Request) (objects, error) {
	if r.Object == nil || r.Old == nil && r.Operation == admissionv1.Update {
		return objects{}, errors.New("the request has no object")
	}
	strict := r.Operation == admissionv1.Create || !reflect.DeepEqual(r.Object.Object["spec"], r.Old.Object["spec"])
	object, err := v.typed(r.Object, strict)
	if err != nil || r.Operation == admissionv1.Create {
		return objects{new: object}, err
	}
	old, err := v.typed(r.Old, false)
	return objects{object, old}, err
}

func (v validator) typed(object *unstructured.Unstructured, strict bool) (runtime.Object, error) {
	typed := v.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, strict); err != nil {
		if invalid := badDuration(object.Object["spec"], field.NewPath("spec"), err); invalid != nil {
			return nil, invalid
		}
		return nil, fmt.Errorf("reading a %s: %w", v.kind, err)
	}
	return typed, nil
}

// badDuration names the field with the duration that could not be parsed: the
// error itself has only the value. It returns nil if err has another cause.
func badDuration(value any, path *field.Path, err error) *field.Error {
	switch value := value.(type) {
	case string:
		if _, why := time.ParseDuration(value); why != nil && strings.Contains(err.Error(), why.Error()) {
			return field.Invalid(path, value, why.Error()+"; "+api.DurationHint)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if invalid := badDuration(value[name], path.Child(name), err); invalid != nil {
				return invalid
			}
		}
	case []any:
		for i, item := range value {
			if invalid := badDuration(item, path.Index(i), err); invalid != nil {
				return invalid
			}
		}
	}
	return nil
}
