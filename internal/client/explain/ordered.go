package explain

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/order"
)

// ordered holds the facts about the Order of a request to an ACME issuer.
type ordered struct {
	// facts is nil if no Order exists, or if it is unknown for the reason in unknown.
	facts   *OrderFacts
	unknown string
}

// findOrdered finds the Order for a request; nil if its issuer has another type. It
// searches all namespaces for a request without a namespace.
func findOrdered(ctx context.Context, api Reader, i *IssuerFacts, namespace, uid string, q Query) (*ordered, error) {
	if i.kind != certmanager.TypeACME {
		return nil, nil
	}
	found, unknown, err := findOrder(ctx, api, namespace, types.UID(uid), q)
	return &ordered{found, unknown}, err
}

// checks returns the checks of the Order and of the Challenge that it waits for longest;
// none if the issuer is not an ACME issuer.
func (o *ordered) checks() []Check {
	switch {
	case o == nil:
		return nil
	case o.unknown != "":
		return []Check{{"order", Unknown, o.unknown}}
	case o.facts == nil:
		return []Check{{"order", Open, "the request has no Order yet"}}
	}
	placed := o.facts.checkPlaced()
	placed.Message = fmt.Sprintf("Order %s: %s", o.facts.Order.Name, placed.Message)
	checks := []Check{placed}
	if slowest := o.facts.Slowest(); slowest != nil {
		result := Open
		if order.IsFailure(slowest.Status.State) {
			result = No
		}
		checks = append(checks, Check{"challenge", result, challengeText(slowest, o.facts.Now)})
	}
	return checks
}

// steps returns steps that show more.
func (o *ordered) steps() []Step {
	if o == nil || o.facts == nil {
		return nil
	}
	f := o.facts
	steps := []Step{step("To see everything about its Order:", f.explainCommand(orders, client.ObjectKeyFromObject(f.Order)))}
	if slowest := f.Slowest(); slowest != nil {
		steps = append(steps, f.explainStep(slowest))
	}
	return steps
}
