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
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Lists are read in pages, up to a maximum number of objects.
const (
	pageSize   = 500
	maxCounted = 10000
)

// Endpoint describes an AcmeEndpoint, for JSON and YAML.
type Endpoint struct {
	Name string `json:"name"`
	// Ready reports whether the endpoint accepts orders, Message the reason if not.
	Ready   metav1.ConditionStatus `json:"ready"`
	Message string                 `json:"message,omitempty"`
	// Directory is the URL for clients.
	Directory   string                 `json:"directory,omitempty"`
	Fingerprint string                 `json:"fingerprint,omitempty"`
	Bundle      string                 `json:"bundle,omitempty"`
	Admission   v1alpha1.AcmeAdmission `json:"admission"`
	Profiles    []string               `json:"profiles"`
	Accounts    int64                  `json:"accounts"`
	// Waiting is the number of accounts that wait for approval.
	Waiting int `json:"accountsWaiting,omitempty"`
	// Orders is the number of orders by state; nil if the caller may not list them.
	Orders map[string]int `json:"orders,omitempty"`
	// More reports that there are more accounts or orders than were counted.
	More bool `json:"more,omitempty"`
}

// Endpoints shows the named endpoints, or all without names.
func Endpoints(ctx context.Context, cfg Config, names []string) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	list, err := cfg.endpoints(ctx, c, names)
	if err != nil {
		return err
	}
	found := []Endpoint{} // JSON and YAML contain an empty list
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
		Name: e.Name, Ready: metav1.ConditionUnknown, Message: "no controller has processed it yet: is acme-endpoints running?",
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

// count counts the waiting accounts and the orders of endpoints. It skips kinds that the
// caller may not list.
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
		p.Line("No AcmeEndpoints found. docs/acme-server.md shows how to create one.")
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
			accounts += fmt.Sprintf(", %d waiting for approval: %s", e.Waiting, command("kubectl", "get", "acmeaccounts", "-l", v1alpha1.AcmeEndpointLabel+"="+e.Name))
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
		return "unknown: requires list on acmeorders in all namespaces"
	}
	var texts []string
	for _, state := range []string{"open", "processing", "valid", "invalid"} {
		if n := e.Orders[state]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, state))
		}
	}
	text := print.OrNone(strings.Join(texts, ", "))
	if e.More {
		text += fmt.Sprintf(", among the first %d", maxCounted)
	}
	return text
}
