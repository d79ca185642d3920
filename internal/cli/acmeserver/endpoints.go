package acmeserver

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/cli/print"
)

// Lists are read in pages, and up to a number of objects.
const (
	pageSize   = 500
	maxCounted = 10000
)

// Endpoint is what there is to know about an endpoint, in the form for machines.
type Endpoint struct {
	Name string `json:"name"`
	// Ready says whether orders are taken, Message why not.
	Ready   metav1.ConditionStatus `json:"ready"`
	Message string                 `json:"message,omitempty"`
	// Directory is the URL that clients are given.
	Directory   string                 `json:"directory,omitempty"`
	Fingerprint string                 `json:"fingerprint,omitempty"`
	Bundle      string                 `json:"bundle,omitempty"`
	Admission   v1alpha1.AcmeAdmission `json:"admission"`
	Profiles    []string               `json:"profiles"`
	Accounts    int64                  `json:"accounts"`
	// Waiting is how many accounts a person has to approve.
	Waiting int `json:"accountsWaiting,omitempty"`
	// Orders are how many orders are in each state; nil if the caller may not list
	// them.
	Orders map[string]int `json:"orders,omitempty"`
	// More reports that there are more accounts or orders than were counted.
	More bool `json:"more,omitempty"`
}

// Endpoints shows endpoints, all of them without names.
func Endpoints(ctx context.Context, cfg Config, names []string) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	list, err := cfg.endpoints(ctx, c, names)
	if err != nil {
		return err
	}
	found := []Endpoint{} // an empty list for machines
	for i := range list {
		found = append(found, endpointOf(&list[i]))
	}
	if err := count(ctx, c, list, found); err != nil {
		return cfg.refused("counting accounts and orders", err, "list on acmeaccounts and acmeorders")
	}
	return print.Found(cfg.Stdout, cfg.Output, map[string]any{"endpoints": found}, func() string { return endpointsText(found, cfg.Command) })
}

func (cfg Config) endpoints(ctx context.Context, c client.Client, names []string) ([]v1alpha1.AcmeEndpoint, error) {
	if len(names) == 0 {
		all := &v1alpha1.AcmeEndpointList{}
		err := c.List(ctx, all)
		return all.Items, cfg.refused("listing AcmeEndpoints", err, "list on acmeendpoints.certplane.dev, as in the ClusterRole certplane-acme-cluster-view")
	}
	var all []v1alpha1.AcmeEndpoint
	for _, name := range names {
		e, err := cfg.endpoint(ctx, c, name)
		if err != nil {
			return nil, err
		}
		all = append(all, *e)
	}
	return all, nil
}

func (cfg Config) endpoint(ctx context.Context, c client.Client, name string) (*v1alpha1.AcmeEndpoint, error) {
	e := &v1alpha1.AcmeEndpoint{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, e)
	return e, cfg.refused("reading the AcmeEndpoint "+name, err, "get on acmeendpoints.certplane.dev, as in the ClusterRole certplane-acme-cluster-view", "acmeendpoints")
}

func endpointOf(e *v1alpha1.AcmeEndpoint) Endpoint {
	found := Endpoint{
		Name: e.Name, Ready: metav1.ConditionUnknown, Message: "no controller has looked at it yet: is acme-endpoints running?",
		Directory: e.Status.Directory, Admission: e.Spec.Accounts.Admission, Accounts: e.Status.Accounts,
	}
	if ready := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.Ready); ready != nil {
		found.Ready, found.Message = ready.Status, ready.Message
	}
	if trust := e.Status.Trust; trust != nil {
		found.Fingerprint, found.Bundle = trust.Fingerprint, trust.Bundle
	}
	for _, p := range e.Spec.Profiles {
		found.Profiles = append(found.Profiles, p.Name+" ("+backendOf(p)+")")
	}
	return found
}

func backendOf(p v1alpha1.AcmeProfile) string {
	if p.Signer != nil {
		return "signer " + p.Signer.Name
	}
	return cmp.Or(p.Issuer.Kind, "Issuer") + " " + p.Issuer.Name
}

// count counts the accounts that wait and the orders of endpoints. What the caller may
// not list is left out.
func count(ctx context.Context, c client.Client, list []v1alpha1.AcmeEndpoint, found []Endpoint) error {
	for i := range list {
		if list[i].Spec.Accounts.Admission != v1alpha1.AcmeAdmissionApproval {
			continue
		}
		err := pages(ctx, c, &v1alpha1.AcmeAccountList{}, &found[i].More, func(page client.ObjectList) int {
			accounts := page.(*v1alpha1.AcmeAccountList).Items
			for _, a := range accounts {
				if a.Spec.ExternalKey == nil && a.Spec.Decision == "" && a.Status.State == v1alpha1.AcmeAccountValid {
					found[i].Waiting++
				}
			}
			return len(accounts)
		}, client.MatchingLabels{v1alpha1.AcmeEndpointLabel: list[i].Name})
		if err != nil {
			return err
		}
	}
	for i := range list {
		err := pages(ctx, c, &v1alpha1.AcmeOrderList{}, &found[i].More, func(page client.ObjectList) int {
			if found[i].Orders == nil {
				found[i].Orders = map[string]int{}
			}
			orders := page.(*v1alpha1.AcmeOrderList).Items
			for _, o := range orders {
				found[i].Orders[cmp.Or(string(o.Status.State), "open")]++
			}
			return len(orders)
		}, client.MatchingLabels{v1alpha1.AcmeEndpointLabel: list[i].Name})
		if err != nil {
			return err
		}
	}
	return nil
}

func endpointsText(all []Endpoint, command func(...string) string) string {
	p := &print.Page{}
	if len(all) == 0 {
		p.Line("There are no AcmeEndpoints. docs/acme-server.md shows how a first one is made.")
	}
	for i, e := range all {
		if i > 0 {
			p.Line("")
		}
		p.Line(e.headline())
		rows := [][]string{{"directory", print.OrNone(e.Directory)}, {"fingerprint", cmp.Or(e.Fingerprint, "not known")}}
		if e.Bundle != "" {
			rows = append(rows, []string{"roots", "ClusterTrustBundle " + e.Bundle})
		}
		rows = append(rows, []string{"admission", string(e.Admission)}, []string{"profiles", strings.Join(e.Profiles, ", ")})
		accounts := fmt.Sprint(e.Accounts)
		if e.Waiting > 0 {
			accounts += fmt.Sprintf(", of which %d wait for a person: %s", e.Waiting, command("kubectl", "get", "acmeaccounts", "-l", v1alpha1.AcmeEndpointLabel+"="+e.Name))
		}
		p.Table(append(rows, []string{"accounts", accounts}, []string{"orders", e.ordersText()}))
	}
	return p.String()
}

func (e Endpoint) headline() string {
	switch e.Ready {
	case metav1.ConditionTrue:
		return e.Name + " is ready"
	case metav1.ConditionFalse:
		return e.Name + " is not ready: " + e.Message
	}
	return e.Name + ": " + e.Message
}

func (e Endpoint) ordersText() string {
	if e.Orders == nil {
		return "not known: it requires list on acmeorders in all namespaces"
	}
	var texts []string
	for _, state := range []string{"open", "processing", "valid", "invalid"} {
		if n := e.Orders[state]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, state))
		}
	}
	text := print.OrNone(strings.Join(texts, ", "))
	if e.More {
		text += fmt.Sprintf(", of the first %d", maxCounted)
	}
	return text
}
