package explain

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// ObjectExplanation is the explanation of an object of the ACME server, or of a Revocation, for
// JSON and YAML.
type ObjectExplanation struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is the state of an order or account in the ACME protocol.
	State string `json:"state,omitempty"`
	// Verdict is the explanation in one sentence.
	Verdict string `json:"verdict"`
	// Content is the content of the object, in the order of the text.
	Content []ObjectField `json:"content"`
	// Checks are the deciding checks, in their order.
	Checks []Check `json:"checks"`
	// Authorizations are the authorizations of an order.
	Authorizations []ACMEAuthorization `json:"authorizations,omitempty"`
	// Request is the request of an order; nil if it does not exist, or if the caller may
	// not read it.
	Request *ACMERequest `json:"request,omitempty"`
	// Events are the reports of controllers, latest last.
	Events []Event `json:"events,omitempty"`
	// Next holds the next steps.
	Next []Step `json:"next,omitempty"`
}

// ObjectField is a part of an object.
type ObjectField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// The kinds of the ACME server.
var (
	installACME = []Step{{Text: "'certplane serve' serves these kinds; in a cluster, 'certplane manifests' installs them: see docs/acme-server.md."}}

	acmeEndpointKind = kind{
		verb: "acmeendpoint", noun: "AcmeEndpoint", resource: "acmeendpoints." + v1alpha1.GroupName,
		install: installACME, new: func() client.Object { return &v1alpha1.AcmeEndpoint{} },
	}
	acmeExternalKeyKind = kind{
		verb: "acmeexternalkey", noun: "AcmeExternalKey", resource: "acmeexternalkeys." + v1alpha1.GroupName, namespaced: true,
		install: installACME, new: func() client.Object { return &v1alpha1.AcmeExternalKey{} },
	}
	acmeAccountKind = kind{
		verb: "acmeaccount", noun: "AcmeAccount", resource: "acmeaccounts." + v1alpha1.GroupName,
		deleted: "Unused accounts are deleted. ", install: installACME, new: func() client.Object { return &v1alpha1.AcmeAccount{} },
	}
	acmeOrderKind = kind{
		verb: "acmeorder", noun: "AcmeOrder", resource: "acmeorders." + v1alpha1.GroupName, namespaced: true,
		deleted: "Orders are deleted a day after they have failed or their certificate has expired. ", install: installACME, new: func() client.Object { return &v1alpha1.AcmeOrder{} },
	}
)

// ACMEEndpoint explains an endpoint of the ACME server.
func ACMEEndpoint(ctx context.Context, api Reader, q Query) (ObjectExplanation, error) {
	o := &v1alpha1.AcmeEndpoint{}
	if err := acmeEndpointKind.get(ctx, api, q, o); err != nil {
		return ObjectExplanation{}, err
	}
	e := explainedObject(o)
	e.Content = fields("directory", o.Status.Directory, "admission", string(o.Spec.Accounts.Admission), "accounts", fmt.Sprint(o.Status.Accounts))
	if trust := o.Status.Trust; trust != nil {
		e.Content = append(e.Content, fields("fingerprint", trust.Fingerprint, "roots", trust.Bundle)...)
	}
	for _, p := range o.Spec.Profiles {
		backend := ""
		if p.Signer != nil {
			backend = "signer " + p.Signer.Name
		} else if p.Issuer != nil {
			backend = p.Issuer.Kind + " " + p.Issuer.Name
		}
		e.Content = append(e.Content, ObjectField{"profile " + p.Name, backend + chainsOf(p)})
	}
	e.Checks, e.Verdict = conditionChecks(o.Status.Conditions, o.Name)
	if of := o.Spec.Accounts.ServiceAccount; of != nil {
		check, err := mayUse(ctx, api, *of, o.Name)
		if err != nil {
			return ObjectExplanation{}, readError("finding out about the AcmeEndpoint", err)
		}
		if e.Checks = append(e.Checks, check); check.Result == No {
			e.Verdict = o.Name + " cannot be used without an external key: " + check.Message
			e.Next = append(e.Next, allowStep(q, *of, o.Name))
		}
	}
	return e, e.report(ctx, api, o)
}

// chainsOf describes the preferred chains of a profile's certificates; empty without a
// preference.
func chainsOf(p v1alpha1.AcmeProfile) string {
	var text strings.Builder
	for i, chain := range p.Chains {
		text.WriteString([]string{", chains to ", ", else "}[min(i, 1)] + chain.Root)
	}
	if p.Overlap != nil {
		text.WriteString(", roots first that are published for " + length(p.Overlap.Duration))
	}
	return text.String()
}

// ACMEExternalKey explains an external key of the ACME server.
func ACMEExternalKey(ctx context.Context, api Reader, q Query) (ObjectExplanation, error) {
	o := &v1alpha1.AcmeExternalKey{}
	if err := acmeExternalKeyKind.get(ctx, api, q, o); err != nil {
		return ObjectExplanation{}, err
	}
	e := explainedObject(o)
	most := "of any number"
	if o.Spec.MaxAccounts > 0 {
		most = fmt.Sprintf("of at most %d", o.Spec.MaxAccounts)
	}
	e.Content = fields("key identifier", o.Status.KID, "endpoint", o.Spec.Endpoint, "acts as", o.Namespace+"/"+o.Spec.ServiceAccount,
		"secret", o.Spec.Secret.Name, "accounts", fmt.Sprintf("%d %s", o.Status.Accounts, most))
	if o.Spec.Preauthorized != nil {
		e.Content = append(e.Content, ObjectField{"no challenge for", strings.Join(append(append([]string(nil), o.Spec.Preauthorized.DNS...), o.Spec.Preauthorized.IP...), ", ")})
	}
	e.Checks, e.Verdict = conditionChecks(o.Status.Conditions, o.Namespace+"/"+o.Name)
	of := v1alpha1.AcmeServiceAccount{Namespace: o.Namespace, Name: o.Spec.ServiceAccount}
	check, err := mayUse(ctx, api, of, o.Spec.Endpoint)
	if err != nil {
		return ObjectExplanation{}, readError("finding out about the AcmeExternalKey", err)
	}
	if e.Checks = append(e.Checks, check); check.Result == No {
		e.Verdict = o.Namespace + "/" + o.Name + " cannot be used: " + check.Message
		e.Next = append(e.Next, allowStep(q, of, o.Spec.Endpoint))
	}
	e.Next = append(e.Next, step("To see what clients need:", q.Certplane("acme", "credentials", "-n", o.Namespace, o.Name)))
	return e, e.report(ctx, api, o)
}

// ACMEAccount explains an account of an ACME client.
func ACMEAccount(ctx context.Context, api Reader, q Query) (ObjectExplanation, error) {
	o := &v1alpha1.AcmeAccount{}
	if err := acmeAccountKind.get(ctx, api, q, o); err != nil {
		return ObjectExplanation{}, err
	}
	e := explainedObject(o)
	e.State = string(o.Status.State)
	key := "none"
	if of := o.Spec.ExternalKey; of != nil {
		key = of.Namespace + "/" + of.Name
	}
	e.Content = fields("endpoint", o.Spec.Endpoint, "acts as", o.Spec.ServiceAccount.Namespace+"/"+o.Spec.ServiceAccount.Name, "external key", key,
		"decision", cmp.Or(strings.TrimSpace(string(o.Spec.Decision)+" "+o.Spec.DecisionReason), "none"), "contacts", strings.Join(o.Status.Contacts, ", "), "made from", o.Status.InitialAddress)
	force, err := inForce(ctx, api, o)
	if err != nil {
		return ObjectExplanation{}, readError("finding out about the AcmeAccount", err)
	}
	use, err := mayUse(ctx, api, o.Spec.ServiceAccount, o.Spec.Endpoint)
	if err != nil {
		return ObjectExplanation{}, readError("finding out about the AcmeAccount", err)
	}
	e.Checks = []Check{force, use}
	e.Verdict = o.Name + " can order: " + force.Message
	switch {
	case force.Result == Open:
		e.Verdict = o.Name + " waits: " + force.Message
		e.Next = append(e.Next, step("Users with the verb approve on the endpoint decide:", q.Certplane("acme", "approve", o.Name, "--reason", "..."), q.Certplane("acme", "revoke", o.Name, "--reason", "...")))
	case force.Result != Yes:
		e.Verdict = o.Name + " cannot order: " + force.Message
	case use.Result == No:
		e.Verdict = o.Name + " cannot order: " + use.Message
		e.Next = append(e.Next, allowStep(q, o.Spec.ServiceAccount, o.Spec.Endpoint))
	}
	return e, e.report(ctx, api, o)
}

// inForce checks whether an account is valid.
func inForce(ctx context.Context, api Reader, o *v1alpha1.AcmeAccount) (Check, error) {
	f := acmeorder.AccountFacts{Account: o}
	if of := o.Spec.ExternalKey; of != nil {
		key := &v1alpha1.AcmeExternalKey{}
		found, err := exists(ctx, api, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, key)
		if err != nil {
			return Check{}, err
		}
		if found == Unknown {
			return Check{"account", Unknown, mayNotRead("get", acmeExternalKeyKind.resource, of.Namespace)}, nil
		}
		if found == Yes {
			f.ExternalKey, _ = acmeorder.CompileKey(key) // the explanation of the key reports an invalid one
		}
	}
	if p := f.Problem(); p != nil {
		return Check{"account", No, p.Detail}, nil
	}
	endpoint := &v1alpha1.AcmeEndpoint{}
	found, err := exists(ctx, api, client.ObjectKey{Name: o.Spec.Endpoint}, endpoint)
	switch {
	case err != nil:
		return Check{}, err
	case found == No:
		return Check{"account", No, "the AcmeEndpoint " + o.Spec.Endpoint + " does not exist"}, nil
	case found == Unknown:
		return Check{"account", Yes, "it is in force; " + mayNotRead("get", acmeEndpointKind.resource, "")}, nil
	}
	if p := f.Waiting(&endpoint.Spec, ""); p != nil {
		return Check{"account", Open, "a person must approve it before it can order"}, nil
	}
	return Check{"account", Yes, "it is in force"}, nil
}

// mayUse checks whether a ServiceAccount may have accounts and orders at an endpoint.
func mayUse(ctx context.Context, api Reader, of v1alpha1.AcmeServiceAccount, endpoint string) (Check, error) {
	return mayOn(ctx, api, of, "use", rights.ACMEUse, endpoint)
}

func mayOn(ctx context.Context, api Reader, of v1alpha1.AcmeServiceAccount, name, verb, endpoint string) (Check, error) {
	what := fmt.Sprintf("%s on acmeendpoints/%s", verb, endpoint)
	return mayServiceAccount(ctx, api, of, name, what, acmeorder.OnEndpoint(verb, endpoint))
}

func mayServiceAccount(ctx context.Context, api Reader, of v1alpha1.AcmeServiceAccount, name, what string, attributes authorizationv1.ResourceAttributes) (Check, error) {
	who := request.ServiceAccount(of.Namespace, of.Name)
	allowed, err := result(api.May(ctx, authorizationv1.SubjectAccessReviewSpec{User: who.Username, Groups: who.Groups, ResourceAttributes: &attributes}))
	switch {
	case err != nil:
		return Check{}, err
	case allowed == Unknown:
		return Check{name, Unknown, mayNotCheckOthers}, nil
	case allowed == Yes:
		return Check{name, Yes, fmt.Sprintf("the ServiceAccount %s/%s has %s", of.Namespace, of.Name, what)}, nil
	}
	return Check{name, No, fmt.Sprintf("the ServiceAccount %s/%s lacks %s", of.Namespace, of.Name, what)}, nil
}

func allowStep(q Query, of v1alpha1.AcmeServiceAccount, endpoint string) Step {
	return step("An administrator grants the ServiceAccount its rights:", q.Certplane("acme", "allow", "-n", of.Namespace, of.Name, "--endpoint", endpoint, "--apply"))
}

func explainedObject(o client.Object) ObjectExplanation {
	return ObjectExplanation{Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), Checks: []Check{}}
}

// report adds the Events about an object, and what these mean.
func (e *ObjectExplanation) report(ctx context.Context, api Reader, o client.Object) error {
	events, err := EventsOf(ctx, api, o)
	if err != nil {
		return readError("reading the Events", err)
	}
	e.Events, e.Checks = events.List, append(e.Checks, events.checks()...)
	return nil
}

// conditionChecks returns conditions as checks, and the verdict that the condition
// Ready is.
func conditionChecks(conditions []metav1.Condition, name string) (checks []Check, verdict string) {
	verdict = name + ": no controller has processed it yet"
	for _, c := range conditions {
		result := Unknown
		switch c.Status {
		case metav1.ConditionTrue:
			result = Yes
		case metav1.ConditionFalse:
			result = No
		}
		checks = append(checks, Check{c.Type, result, c.Message})
		if c.Type == v1alpha1.Ready {
			verdict = name + " is ready: " + c.Message
			if result != Yes {
				verdict = name + " is not ready: " + c.Message
			}
		}
	}
	return checks, verdict
}

// fields returns names and values, without those that are empty.
func fields(pairs ...string) []ObjectField {
	var all []ObjectField
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all = append(all, ObjectField{pairs[i], pairs[i+1]})
		}
	}
	return all
}
