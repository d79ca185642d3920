package acme

import (
	"context"
	"errors"
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/policy/request"
)

// The reasons of verdicts.
const (
	ReasonOrderCreated        = "OrderCreated"
	ReasonOrderPending        = "OrderPending"
	ReasonOrderCreatingError  = "OrderCreatingError"
	ReasonOrderGetError       = "OrderGetError"
	ReasonOrderBlocked        = "OrderBlocked"
	ReasonOrderBadCertificate = "OrderBadCertificate"

	ReasonRequestParsingError = "RequestParsingError"
	ReasonInvalidOrder        = "InvalidOrder"
	ReasonOrderBuildingError  = "OrderBuildingError"
	ReasonOrderFailed         = "OrderFailed"
)

const textCommonName = "The CSR PEM requests a commonName that is not present in the list of dnsNames or ipAddresses. " +
	"If a commonName is set, ACME requires that the value is also present in the list of dnsNames or ipAddresses"

// OrderWatch wakes the request for which an Order was made.
var OrderWatch = issuing.Watch{Object: &acmev1.Order{}, Resource: "orders", References: requestOf, RequestsOnly: true}

// signing answers requests by Orders: the controller for Orders does the rest.
type signing struct {
	// Config contains the Client, which needs get, list, create and delete on orders, and
	// get on certificates and secrets.
	issuing.Config
	// copied returns the annotations that an Order inherits from a
	// CertificateSigningRequest; nil means all.
	copied func(annotations map[string]string) map[string]string
	// replaces has Orders name the certificate that they renew (RFC 9773).
	replaces bool
	// orders are the Orders that requests wait for.
	orders orders
}

// Needs returns the request itself: an Order stands for its request.
func (s *signing) Needs(_ cmv1.GenericIssuer, req issuing.Request) []issuing.Reference {
	kind := order.OwnerKind(req.Kind).GroupKind()
	return []issuing.Reference{{Kind: kind, NamespacedName: types.NamespacedName{Namespace: req.Namespace, Name: req.Name}}}
}

// Sign returns the certificate of the Order for a request. It creates the Order if it does
// not exist.
func (s *signing) Sign(ctx context.Context, by cmv1.GenericIssuer, req issuing.Request, now time.Time) (*signer.Issued, error) {
	if found := s.recall(ctx, req); found != nil {
		return s.answer(ctx, found, req, now)
	}
	wanted, err := s.build(ctx, by, req)
	if err != nil {
		return nil, err
	}
	found, err := s.find(ctx, wanted, req)
	switch {
	case err != nil:
		return nil, pending(ReasonOrderGetError, fmt.Sprintf("Failed to get order resource %s", nameOf(wanted)), err)
	case found == nil:
		return nil, s.create(ctx, wanted, req)
	}
	if order.IsOf(found, req.UID) {
		s.orders.remember(req.UID, client.ObjectKeyFromObject(found))
	}
	return s.answer(ctx, found, req, now)
}

// recall returns the Order that an earlier attempt has found; nil if there is
// none, or no more.
func (s *signing) recall(ctx context.Context, req issuing.Request) *acmev1.Order {
	name, ok := s.orders.of(req.UID)
	if !ok {
		return nil
	}
	found, err := s.read(ctx, name)
	if err != nil || found == nil || !order.IsOf(found, req.UID) || found.DeletionTimestamp != nil {
		s.orders.forget(req.UID)
		return nil
	}
	if order.IsFinal(found.Status.State) {
		s.orders.forget(req.UID) // usually the last attempt
	}
	return found
}

// build returns the Order for a request. It does not exist yet, or has another
// name if the issuer has changed since.
func (s *signing) build(ctx context.Context, by cmv1.GenericIssuer, req issuing.Request) (*acmev1.Order, error) {
	csr, err := req.Proven()
	if err != nil {
		return nil, issuing.Permanent(ReasonRequestParsingError, "Failed to decode CSR in spec.request", err)
	}
	if err := order.CheckNames(csr.CertificateRequest); err != nil {
		return nil, issuing.Permanent(ReasonInvalidOrder, textCommonName, err)
	}
	b := order.Build{
		Issuer: by.GetSpec().ACME, Namespace: req.Namespace, Annotations: req.ObjectAnnotations, Duration: req.Terms.Duration,
	}
	if req.Kind != request.CertificateRequests {
		b.Namespace = certmanager.SecretNamespace(by, s.ClusterResources)
		if b.Duration == nil {
			b.Duration = new(certmanager.DefaultDuration)
		}
		if s.copied != nil {
			b.Annotations = s.copied(b.Annotations)
		}
	}
	if s.replaces && req.Kind == request.CertificateRequests {
		b.Replaces = s.renewed(ctx, req.Request)
	}
	wanted, err := order.For(req.Request, b)
	if err != nil {
		return nil, issuing.Permanent(ReasonOrderBuildingError, "Failed to build order", err)
	}
	return wanted, nil
}

// find returns the Order for a request, and what blocks its name otherwise; nil
// if there is neither. A request has only one Order: the first, even if another
// would have another name because the issuer has changed since.
func (s *signing) find(ctx context.Context, wanted *acmev1.Order, req issuing.Request) (*acmev1.Order, error) {
	found, err := s.read(ctx, client.ObjectKeyFromObject(wanted))
	if err != nil || found != nil && order.IsOf(found, req.UID) {
		return found, err
	}
	name, err := s.earlier(ctx, wanted.Namespace, req.UID)
	if err != nil || name == "" {
		return found, err
	}
	return s.read(ctx, types.NamespacedName{Namespace: wanted.Namespace, Name: name})
}

// create creates the Order of a request. Its error is the verdict.
func (s *signing) create(ctx context.Context, wanted *acmev1.Order, req issuing.Request) error {
	err := s.Client.Create(ctx, wanted)
	if err != nil {
		return pending(ReasonOrderCreatingError, fmt.Sprintf("Failed create new order resource %s", nameOf(wanted)), err)
	}
	s.orders.remember(req.UID, client.ObjectKeyFromObject(wanted))
	return ofClass(classCreated, issuing.Pending(ReasonOrderCreated, fmt.Sprintf("Created Order resource %s", nameOf(wanted)), nil))
}

// answer returns what an Order means for the request.
func (s *signing) answer(ctx context.Context, o *acmev1.Order, req issuing.Request, now time.Time) (*signer.Issued, error) {
	switch state := o.Status.State; {
	case !order.IsOf(o, req.UID) || o.DeletionTimestamp != nil:
		return nil, blocked(o, req)
	case order.IsFailure(state):
		return nil, failed(o, req)
	case state != acmev1.Valid:
		return nil, ofClass(classOf(o), issuing.Pending(ReasonOrderPending, waitsFor(o), nil))
	case len(o.Status.Certificate) == 0:
		return nil, ofClass(classOrdered, issuing.Pending(ReasonOrderPending, "Waiting for order-controller to add certificate data to Order "+nameOf(o), nil))
	}
	return s.issue(ctx, o, req, now)
}

// The classes of waits for an Order.
const (
	classCreated = "created"
	classOrdered = "ordered"
	classLimited = "limited"
)

// classOf returns what a request waits for whose Order has not ended.
func classOf(o *acmev1.Order) string {
	switch {
	case order.IsLimited(&o.Status):
		return classLimited
	case o.Status.State == "" && o.Status.Reason == "":
		return classCreated
	case o.Status.State == "":
		return "" // an obstacle, which the reason describes
	}
	return classOrdered
}

// ofClass gives a verdict its class.
func ofClass(class string, err error) error {
	if verdict := new(signer.PendingError); errors.As(err, &verdict) {
		verdict.Class = class
	}
	return err
}

// blocked returns the verdict on a request if another Order already uses the name of its
// Order. The garbage collector deletes the Order of an earlier request with the same name.
func blocked(o *acmev1.Order, req issuing.Request) error {
	if isNamesake(o, req) {
		return issuing.Pending(ReasonOrderBlocked, fmt.Sprintf("Waiting for the deletion of Order %s, which is of an earlier %s of this name", nameOf(o), req.Kind), nil)
	}
	return &signer.PendingError{
		Reason: ReasonOrderBlocked, Message: fmt.Sprintf("The Order %s is not owned by this %s; delete it", nameOf(o), req.Kind),
		Err: fmt.Errorf("found Order resource not owned by this %s, retrying", req.Kind),
	}
}

func failed(o *acmev1.Order, req issuing.Request) error {
	name := fmt.Sprintf("%q", o.Name)
	if req.Kind != request.CertificateRequests {
		name = nameOf(o)
	}
	why := fmt.Errorf("order is in %q state: %s", o.Status.State, o.Status.Reason)
	return issuing.Permanent(ReasonOrderFailed, fmt.Sprintf("Failed to wait for order resource %s to become ready", name), why)
}

func waitsFor(o *acmev1.Order) string {
	text := fmt.Sprintf("Waiting on certificate issuance from order %s: %q", nameOf(o), o.Status.State)
	if o.Status.Reason != "" {
		text += " (" + o.Status.Reason + ")"
	}
	return text
}

// pending returns the verdict on a request for which the API has failed.
func pending(reason, text string, err error) error {
	var verdict *signer.PendingError
	if !errors.As(issuing.Pending(reason, text, err), &verdict) {
		return err
	}
	verdict.Watched = false
	return verdict
}

func nameOf(o client.Object) string { return client.ObjectKeyFromObject(o).String() }
