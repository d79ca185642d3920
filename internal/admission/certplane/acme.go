package certplane

import (
	"context"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/rights"
)

// ACMEWebhookName is part of refusals that come from a webhook.
const ACMEWebhookName = "acme." + WebhookName

// Resources of the ACME server.
var (
	acmeEndpoints    = v1alpha1.GroupVersion.WithResource("acmeendpoints").GroupResource()
	acmeExternalKeys = v1alpha1.GroupVersion.WithResource("acmeexternalkeys").GroupResource()
	acmeAccounts     = v1alpha1.GroupVersion.WithResource("acmeaccounts").GroupResource()
	acmeAccountKeys  = v1alpha1.GroupVersion.WithResource("acmeaccountkeys").GroupResource()
	acmeOrders       = v1alpha1.GroupVersion.WithResource("acmeorders").GroupResource()
)

// kindOf has the kinds of the ACME server by their resources.
var kindOf = map[schema.GroupResource]string{
	acmeEndpoints: "AcmeEndpoint", acmeExternalKeys: "AcmeExternalKey",
	acmeAccounts: "AcmeAccount", acmeAccountKeys: "AcmeAccountKey", acmeOrders: "AcmeOrder",
}

// IsACME reports whether objects of a resource belong to the ACME server.
func IsACME(resource schema.GroupResource) bool { return kindOf[resource] != "" }

// Authorize reports whether a user may do something with resources.
type Authorize func(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (allowed bool, err error)

// ACMEChecks checks objects of the ACME server. It is safe for concurrent use.
type ACMEChecks struct{ authorize Authorize }

// NewACME returns checks that ask authorize what users may do.
func NewACME(authorize Authorize) *ACMEChecks { return &ACMEChecks{authorize} }

// Write is a write of an object of certplane.dev by a user.
type Write struct {
	Request
	Resource  schema.GroupResource
	Namespace string
	User      authenticationv1.UserInfo
}

// Validate refuses objects that cannot work, and objects with which a user would grant
// rights that the user does not have. Only the ACME server writes accounts, their keys
// and orders. Unchanged specs are not checked: objects accepted under other rules can
// still be labelled and deleted.
func (c *ACMEChecks) Validate(ctx context.Context, w Write) (warnings []string, refusal *apierrors.StatusError) {
	if w.Operation == admissionv1.Delete {
		if w.Resource == acmeAccounts && w.Subresource == "" {
			return []string{"deleting the account deletes its orders, and with them the record of its certificates: to end an account, set spec.decision to Revoked"}, nil
		}
		return nil, nil
	}
	if !writes(w.Operation) || w.Object == nil {
		return nil, nil
	}
	switch w.Resource {
	case acmeEndpoints:
		return c.validateEndpoint(ctx, w)
	case acmeExternalKeys:
		return nil, c.validateExternalKey(ctx, w)
	case acmeAccounts, acmeAccountKeys, acmeOrders:
		return nil, c.validateServed(ctx, w)
	}
	return nil, nil
}

// validateServed lets only the ACME server write its own objects, and only users with
// the verb approve decide about accounts.
func (c *ACMEChecks) validateServed(ctx context.Context, w Write) *apierrors.StatusError {
	endpoint := w.text(w.Object, "spec", "endpoint")
	if w.Old != nil {
		endpoint = w.text(w.Old, "spec", "endpoint") // that of the new object has yet to be compared
	}
	decided := w.Subresource == "" && w.Resource == acmeAccounts && w.decides()
	if decided {
		if refusal := c.authorize.require(ctx, w, acmeorder.OnEndpoint(rights.ACMEApprove, endpoint), "deciding about an account"); refusal != nil {
			return refusal
		}
	}
	if !w.servedChange() {
		return nil
	}
	return c.authorize.require(ctx, w, acmeorder.OnEndpoint(rights.ACMEServe, endpoint), "writing "+w.Resource.Resource+", which the ACME server keeps,")
}

// decides reports whether a write of an account has a new decision or reason.
func (w Write) decides() bool {
	for _, name := range []string{"decision", "decisionReason"} {
		if w.text(w.Object, "spec", name) != w.text(w.Old, "spec", name) {
			return true
		}
	}
	return false
}

// servedChange reports whether a write changes fields that only the ACME server may
// change. The decision about an account is not among them, nor are metadata without
// meaning to it: garbage collection changes owners and finalizers.
func (w Write) servedChange() bool {
	if w.Old == nil {
		return true
	}
	if w.Subresource != "" {
		return !reflect.DeepEqual(w.Object.Object["status"], w.Old.Object["status"])
	}
	if !reflect.DeepEqual(served(w.Object), served(w.Old)) {
		return true
	}
	for _, label := range []string{v1alpha1.AcmeEndpointLabel, v1alpha1.AcmeAccountLabel, v1alpha1.AcmeOrderLabel, v1alpha1.AcmeSerialLabel} {
		if w.Object.GetLabels()[label] != w.Old.GetLabels()[label] {
			return true
		}
	}
	return false
}

// served returns the spec without the decision.
func served(object *unstructured.Unstructured) map[string]any {
	spec, _ := object.Object["spec"].(map[string]any)
	return without(spec, "decision", "decisionReason")
}

func (Write) text(object *unstructured.Unstructured, fields ...string) string {
	if object == nil {
		return ""
	}
	value, _, _ := unstructured.NestedString(object.Object, fields...)
	return value
}

// as converts the object to its Go type.
func (w Write) as(into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(w.Object.Object, into)
}

// require refuses a write unless its user has one of the rights, which differ in their
// names. action is the action that needs them.
func (authorize Authorize) require(ctx context.Context, w Write, right authorizationv1.ResourceAttributes, action string, otherNames ...string) *apierrors.StatusError {
	for _, name := range append([]string{right.Name}, otherNames...) {
		asked := right
		asked.Name = name
		allowed, err := authorize(ctx, w.User, asked)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("asking what user %q may do: %w", w.User.Username, err))
		}
		if allowed {
			return nil
		}
	}
	return apierrors.NewForbidden(w.Resource, w.Name, fmt.Errorf("%s needs the verb %q on %s", action, right.Verb, describeRight(right)))
}

func describeRight(right authorizationv1.ResourceAttributes) string {
	resource := right.Resource
	if right.Subresource != "" {
		resource += "/" + right.Subresource
	}
	text := fmt.Sprintf("%s %q", resource, right.Name)
	if right.Group != "" {
		text += " of " + right.Group
	}
	if right.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %s", right.Namespace)
	}
	return text
}
