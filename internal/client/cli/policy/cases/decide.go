package cases

import (
	"context"
	"reflect"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/ask"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// prepared is the input of a decision, without the facts that depend on the policies.
type prepared struct {
	asked *requests.Asked
	in    certpolicy.Input
	// earlier is the request that this one renews.
	earlier v1alpha1.EarlierRequests
}

// decide decides the case by a set of policies.
func (c *testCase) decide(ctx context.Context, set *certpolicy.Set, keys *ask.Keys) (*v1alpha1.PolicyDecision, error) {
	p, err := c.prepare(keys)
	if err != nil {
		return nil, err
	}
	in := p.in
	finder := &facts.Finder{Objects: c.test.facts, Access: c.test.access, Controllers: facts.Controllers()}
	signer := in.Facts.Signer
	in.Facts = finder.Of(ctx, &in.Request, p.asked.Pod, set.Needs(&in.Request))
	in.Facts.Signer = signer
	in.Facts.Earlier = certpolicy.Known(&p.earlier)
	p.asked.SetOrigin(&in.Facts)
	in.Request.Order = in.Facts.Order
	cert, own := finder.Prospective(ctx, &in.Request, in.Time)
	in.Prospective = cert
	if own {
		in.Facts.Signer = certpolicy.OwnSigner(true)
	}
	in.Facts.Quotas = c.quotas(set.Quotas(&in.Request), in.Time)
	return set.Decide(in), nil
}

// setZero sets the field of ask with a name to its zero value.
func setZero(ask *v1alpha1.PolicyTestRequest, name string) {
	value := reflect.ValueOf(ask).Elem()
	for i := range value.NumField() {
		if field, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ","); field == name {
			value.Field(i).SetZero()
		}
	}
}
