// Package certmanager checks writes of objects of cert-manager.io and
// acme.cert-manager.io.
//
// They are custom resources everywhere. A server that contains the package and
// a webhook beside another server therefore call the same functions.
package certmanager

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// WebhookName is part of every refusal, wherever it comes from: clients look
// for it.
const WebhookName = "webhook.cert-manager.io"

// Request is a write that is about to happen.
type Request struct {
	// Operation is CREATE or UPDATE; all others are let through.
	Operation admissionv1.Operation
	Kind      schema.GroupVersionKind
	// Resource is the resource in the address of the request, and Subresource
	// is "status" or empty.
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	User        authenticationv1.UserInfo
	// Object is the object to be stored. Old is the stored one, if it exists.
	Object, Old *unstructured.Unstructured
}

// Checks decides about requests. It is safe for concurrent use.
type Checks struct {
	approval approval
	records  records
}

// Authorize reports whether a user may do something with resources. If the
// answer is unknown, it returns an error or false.
type Authorize func(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (allowed bool, err error)

// New returns checks that ask authorize what users may do, and find the
// resources of issuers with discovery.
func New(discovery api.Discovery, authorize Authorize) *Checks {
	return &Checks{approval: approval{resources: newResources(discovery), authorize: authorize}, records: records{authorize}}
}

// Changes reports whether Mutate would change the object of r. Only then does
// Mutate need it.
func (r Request) Changes() bool {
	return r.Operation == admissionv1.Create && r.isRequest("")
}

// Mutate changes the object of r before all other checks.
func (c *Checks) Mutate(r Request) error {
	if err := r.check(); err != nil {
		return err
	}
	return setRequester(r)
}

// Validate returns an error with all reasons why r is refused, and warnings for
// its author.
func (c *Checks) Validate(ctx context.Context, r Request) (warnings []string, err error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Operation != admissionv1.Create && r.Operation != admissionv1.Update {
		return nil, nil
	}
	validator, known := validators[r.Resource.GroupResource()]
	if !known {
		return nil, nil
	}
	objects, err := validator.decode(r)
	if err != nil {
		return nil, err
	}
	invalid, warnings := validator.validate(r, objects)
	return warnings, utilerrors.NewAggregate([]error{
		checkRequester(r, objects),
		c.approval.check(ctx, r, objects),
		c.records.check(ctx, r, objects),
		invalid.ToAggregate(),
	})
}

// check refuses a resource that is served as another kind: it would be checked
// by the rules of the wrong kind.
func (r Request) check() error {
	if r.Resource.Resource == "" {
		return fmt.Errorf("the request names no resource")
	}
	validator, known := validators[r.Resource.GroupResource()]
	if known && (r.Kind.GroupKind() != schema.GroupKind{Group: r.Resource.Group, Kind: validator.kind}) {
		return fmt.Errorf("resource %s is of kind %s, not %s", r.Resource.GroupResource(), validator.kind, r.Kind.GroupKind())
	}
	return nil
}

// isRequest reports whether r is about CertificateRequests, through the resource
// or the subresource of this name.
func (r Request) isRequest(subresource string) bool {
	return r.Resource.GroupResource() == requestsResource && r.Subresource == subresource
}

var requestsResource = schema.GroupResource{Group: api.Group, Resource: "certificaterequests"}
