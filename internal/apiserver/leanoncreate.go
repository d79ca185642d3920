package apiserver

import (
	"encoding/json"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apiserver/extension/lean"
)

// opened notes how CertificateRequests are updated, once they are served.
func (o *onCreate) opened(rules lean.Rules) {
	if resource := rules.Resource.GroupResource(); resource == cmv1.Resource("certificaterequests") {
		o.put(resource, answeredKind{
			kind: rules.Kind, parts: map[string]rest.RESTUpdateStrategy{"status": rules.Status}, form: leanForm{}, admission: rules.Admission, manage: rules.Manage,
		})
	}
}

// leanForm is the form of CertificateRequests. Controllers change only the status.
type leanForm struct{}

func (leanForm) View(stored runtime.Object) (client.Object, error) {
	object, ok := stored.(*lean.Object)
	if !ok {
		return nil, fmt.Errorf("a CertificateRequest is a %T", stored) // the library serves the definition now
	}
	view := &cmv1.CertificateRequest{TypeMeta: object.TypeMeta, ObjectMeta: *object.ObjectMeta.DeepCopy()}
	if object.Status != "" {
		if err := json.Unmarshal([]byte(object.Status), &view.Status); err != nil {
			return nil, err
		}
	}
	return view, json.Unmarshal([]byte(object.Spec), &view.Spec)
}

func (leanForm) Stored(base runtime.Object, view client.Object) (runtime.Object, error) {
	object, isLean := base.DeepCopyObject().(*lean.Object)
	request, isRequest := view.(*cmv1.CertificateRequest)
	if !isLean || !isRequest {
		return nil, fmt.Errorf("a %T is not a view of a %T", view, base)
	}
	status, err := json.Marshal(request.Status)
	if err != nil {
		return nil, err
	}
	object.Status, object.ResourceVersion, object.ManagedFields = lean.JSON(status), request.ResourceVersion, request.ManagedFields
	return object, nil
}
