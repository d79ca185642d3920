package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/rights"
)

// ACMEAuthorization is the proof of control of one name of an order.
type ACMEAuthorization struct {
	Identifier string `json:"identifier"`
	State      string `json:"state"`
	// Origin is the proof of control: a challenge, the external key, or an earlier order.
	Origin     v1alpha1.AcmeOrigin `json:"origin"`
	Challenges []ACMEChallenge     `json:"challenges,omitempty"`
}

// ACMEChallenge is a challenge and its attempts.
type ACMEChallenge struct {
	Type     string `json:"type"`
	State    string `json:"state"`
	Attempts int32  `json:"attempts,omitempty"`
	// Next is the time of the next attempt.
	Next *time.Time `json:"nextAttempt,omitempty"`
	// Error is the error of the last attempt, Address the address that the server
	// connected to.
	Error   string `json:"error,omitempty"`
	Address string `json:"address,omitempty"`
}

// ACMERequest is the request of an order, with its own explanation.
type ACMERequest struct {
	Kind    string  `json:"kind"`
	Name    string  `json:"name"`
	Verdict string  `json:"verdict"`
	Checks  []Check `json:"checks,omitempty"`
}

// ACMEOrder explains an order of an ACME client.
func ACMEOrder(ctx context.Context, api Reader, q Query) (ObjectExplanation, error) {
	o := &v1alpha1.AcmeOrder{}
	if err := acmeOrderKind.get(ctx, api, q, o); err != nil {
		return ObjectExplanation{}, err
	}
	e := explainedObject(o)
	e.State = acmeorder.OrderState(o, q.Now)
	var names []string
	for _, id := range o.Spec.Identifiers {
		names = append(names, id.Value)
	}
	e.Content = fields("endpoint", o.Spec.Endpoint, "account", o.Spec.Account, "profile", o.Spec.Profile, "names", strings.Join(names, ", "),
		"ordered from", o.Spec.Address, "replaces", o.Spec.Replaces)
	if c := o.Status.Certificate; c != nil {
		e.Content = append(e.Content, fields("serial number", c.Serial, "valid until", c.NotAfter.UTC().Format(time.RFC3339))...)
		if r := c.Revoked; r != nil {
			e.Content = append(e.Content, ObjectField{"revoked", Revocation{r.Time.Time, acmeorder.ReasonText(r.Reason), r.By}.String()})
		}
	}
	e.Authorizations = authorizationsOf(o, q.Now)
	e.Verdict = o.Name + " " + orderVerdict(o, e.State, q.Now)
	for _, part := range []func(context.Context, Reader, *v1alpha1.AcmeOrder, Query) error{e.gates, e.explainRequest} {
		if err := part(ctx, api, o, q); err != nil {
			return ObjectExplanation{}, readError("finding out about the AcmeOrder", err)
		}
	}
	return e, e.report(ctx, api, o)
}

func authorizationsOf(o *v1alpha1.AcmeOrder, now time.Time) []ACMEAuthorization {
	var all []ACMEAuthorization
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		shown := ACMEAuthorization{Identifier: acmeorder.OrderedIdentifier(a).Value, State: acmeorder.AuthorizationState(a, now), Origin: a.Origin}
		for _, j := range acmeorder.ShownChallenges(a) {
			c := &a.Challenges[j]
			challenge := ACMEChallenge{Type: c.Type, State: c.State, Attempts: c.Attempts, Next: InUTC(c.NextAttempt)}
			if c.Error != nil {
				challenge.Error = c.Error.Type + ": " + c.Error.Detail
			}
			if c.Record != nil {
				challenge.Address = c.Record.Address
			}
			shown.Challenges = append(shown.Challenges, challenge)
		}
		all = append(all, shown)
	}
	return all
}

// orderVerdict returns the rest of a sentence that begins with the order's name.
func orderVerdict(o *v1alpha1.AcmeOrder, state string, now time.Time) string {
	switch state {
	case rfc8555.StateValid:
		if c := o.Status.Certificate; c != nil && c.Revoked != nil {
			return "is complete: its certificate was issued, and is revoked"
		}
		return "is complete: its certificate was issued"
	case rfc8555.StateInvalid:
		p := acmeorder.Problem(o, now)
		return fmt.Sprintf("has failed (%s): %s", strings.TrimPrefix(p.Type, rfc8555.Namespace), p.Detail)
	case rfc8555.StatePending:
		return "waits for its client to prove control of all names"
	case rfc8555.StateReady:
		return "waits for its client to send the certificate request"
	}
	for _, kind := range []string{v1alpha1.AcmeOrderIssued, v1alpha1.AcmeOrderApproved} {
		if c := meta.FindStatusCondition(o.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionUnknown {
			return "is processing: " + c.Message
		}
	}
	return "is processing: its request is made and answered"
}

// gates adds the preconditions of an order: its account, the rights of its
// ServiceAccount, and the proofs of control.
func (e *ObjectExplanation) gates(ctx context.Context, api Reader, o *v1alpha1.AcmeOrder, q Query) error {
	account := &v1alpha1.AcmeAccount{}
	found, err := exists(ctx, api, client.ObjectKey{Name: o.Spec.Account}, account)
	switch {
	case err != nil:
		return err
	case found == Yes:
		if err := e.accountGates(ctx, api, account, o, q); err != nil {
			return err
		}
	case found == No:
		e.Checks = append(e.Checks, Check{"account", No, "the AcmeAccount " + o.Spec.Account + " no longer exists"})
	default:
		e.Checks = append(e.Checks, Check{"account", Unknown, mayNotRead("get", acmeAccountKind.resource, "")})
	}
	valid := 0
	for _, a := range e.Authorizations {
		if a.State == rfc8555.StateValid {
			valid++
		}
	}
	proofs := Check{"proofs", Yes, fmt.Sprintf("control of all %d names is proven", valid)}
	if valid < len(e.Authorizations) {
		proofs = Check{"proofs", Open, fmt.Sprintf("control of %d of %d names is proven", valid, len(e.Authorizations))}
		if e.State == rfc8555.StateInvalid {
			proofs.Result = No
		}
	}
	e.Checks = append(e.Checks, proofs)
	e.Next = append(e.Next, addressSteps(q, o.Spec.Endpoint, e.Authorizations)...)
	return nil
}

// addressSteps returns the next steps for names with addresses that the server does not
// connect to.
func addressSteps(q Query, endpoint string, all []ACMEAuthorization) []Step {
	for _, a := range all {
		for _, c := range a.Challenges {
			if a.State != rfc8555.StateValid && strings.Contains(c.Error, "address not permitted") {
				return []Step{step(fmt.Sprintf("%s leads to an address where the server does not connect. If that is meant, as in a lab, list its network in spec.challenges.networks.allow of the endpoint; for loopback and link-local addresses, also annotate it with %s: \"true\":", a.Identifier, v1alpha1.AcmeAllowLocalAnnotation),
					q.kubectl("edit", "acmeendpoint", endpoint))}
			}
		}
	}
	return nil
}

func (e *ObjectExplanation) accountGates(ctx context.Context, api Reader, account *v1alpha1.AcmeAccount, o *v1alpha1.AcmeOrder, q Query) error {
	of := account.Spec.ServiceAccount
	e.Content = append(e.Content, ObjectField{"acts as", of.Namespace + "/" + of.Name})
	force, err := inForce(ctx, api, account)
	if err != nil {
		return err
	}
	use, err := mayUse(ctx, api, of, o.Spec.Endpoint)
	if err != nil {
		return err
	}
	e.Checks = append(e.Checks, force, use)
	if force.Result != Yes {
		e.Next = append(e.Next, step("To see more about the account:", q.explainCommand(acmeAccountKind, client.ObjectKeyFromObject(account))))
	}
	if use.Result == No {
		e.Next = append(e.Next, allowStep(q, of, o.Spec.Endpoint))
	}
	endpoint := &v1alpha1.AcmeEndpoint{}
	if found, err := exists(ctx, api, client.ObjectKey{Name: o.Spec.Endpoint}, endpoint); err != nil || found != Yes {
		return err
	}
	if create, err := mayRequest(ctx, api, of, endpoint, o.Spec.Profile); err != nil {
		return err
	} else if create.Name != "" {
		e.Checks = append(e.Checks, create)
	}
	switch approval := o.Status.Approval; {
	case approval == nil:
	case approval.CarriedFrom != "":
		e.Checks = append(e.Checks, Check{"person", Yes, "the approval of the order " + approval.CarriedFrom + " counts for this one"})
		return nil
	case approval.By != "":
		e.Checks = append(e.Checks, Check{"person", Yes, approval.By + " has approved the request"})
		return nil
	}
	if endpoint.Spec.Approval.Mode == v1alpha1.AcmeApprovalManual {
		e.Checks = append(e.Checks, Check{"person", No, "approval.mode of the endpoint is Manual: a person or a certificate policy has to approve"})
		return nil
	}
	automatic, err := mayOn(ctx, api, of, "person", rights.ACMEAutoApprove, o.Spec.Endpoint)
	if err != nil {
		return err
	}
	if automatic.Result == No {
		automatic.Message += ": a person or a certificate policy has to approve"
	}
	e.Checks = append(e.Checks, automatic)
	return nil
}

// mayRequest checks whether a ServiceAccount may create the request of an order. The
// check has no name if the endpoint no longer has the profile.
func mayRequest(ctx context.Context, api Reader, of v1alpha1.AcmeServiceAccount, endpoint *v1alpha1.AcmeEndpoint, profile string) (Check, error) {
	for _, p := range endpoint.Spec.Profiles {
		switch {
		case p.Name != profile:
		case p.Signer != nil:
			return mayServiceAccount(ctx, api, of, "request", "create on certificatesigningrequests", acmeorder.RequestOfSigner())
		default:
			return mayServiceAccount(ctx, api, of, "request", "create on certificaterequests in its namespace", acmeorder.RequestOfIssuer(of.Namespace))
		}
	}
	return Check{}, nil
}

// explainRequest adds the explanation of the request of an order.
func (e *ObjectExplanation) explainRequest(ctx context.Context, api Reader, o *v1alpha1.AcmeOrder, q Query) error {
	made := o.Status.Request
	if made == nil {
		return nil
	}
	q.Name, q.Namespace = made.Name, made.Namespace
	found := &ACMERequest{Kind: made.Kind, Name: strings.TrimPrefix(made.Namespace+"/"+made.Name, "/")}
	var next []Step
	var err error
	if made.Namespace == "" {
		var explained Explanation
		explained, err = CertificateSigningRequest(ctx, api, q)
		found.Verdict, found.Checks, next = explained.Verdict, explained.Checks, explained.Next
	} else {
		var explained RequestExplanation
		explained, err = CertificateRequest(ctx, api, q)
		found.Verdict, found.Checks, next = explained.Verdict, explained.Checks, explained.Next
	}
	var absent *NotFoundError
	var unread *ReadError
	switch {
	case errors.As(err, &absent):
		found.Verdict = cmp.Or(absent.Message, "it does not exist")
		if e.State == rfc8555.StateValid || e.State == rfc8555.StateInvalid {
			found.Verdict = "it was deleted since, as answered requests are"
		}
	case errors.As(err, &unread):
		found.Verdict = "it is not known: " + unread.Error()
	case err != nil:
		return err
	case e.State == rfc8555.StateProcessing:
		e.Next = append(e.Next, next...)
	}
	e.Request = found
	return nil
}
