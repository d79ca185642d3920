package certpolicy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// The smallest and the largest number of people.
const minPeople, maxPeople = 2, 9

// people checks the people that a policy requires.
func (c *compiler) people(path *field.Path, p *v1alpha1.PeopleRequirement) {
	if p.Count < minPeople || p.Count > maxPeople {
		c.invalid(path.Child("count"), p.Count, fmt.Sprintf("must be from %d to %d", minPeople, maxPeople))
	}
	if p.ValidFor != nil && p.ValidFor.Duration <= 0 {
		c.invalid(path.Child("validFor"), p.ValidFor.Duration.String(), "must be more than zero")
	}
	if key, isExtra := strings.CutPrefix(p.DistinctBy, "Extra:"); p.DistinctBy != "" && p.DistinctBy != "Username" && (!isExtra || key == "") {
		c.invalid(path.Child("distinctBy"), p.DistinctBy, "must be Username, or Extra: and the key of an extra value")
	}
	if p.Override != "" {
		oneOf(c.checker, path.Child("override"), p.Override, v1alpha1.OverrideForbidden, v1alpha1.OverrideAllowed)
	}
	if p.CarryOver != "" {
		oneOf(c.checker, path.Child("carryOver"), p.CarryOver, v1alpha1.CarryOverForbidden, v1alpha1.CarryOverAllowed)
		c.policy.needs.Carried = c.policy.needs.Carried || p.CarryOver == v1alpha1.CarryOverAllowed
	}
	var sum int32
	for i, from := range p.From {
		path := path.Child("from").Index(i)
		sum += from.Count
		switch {
		case from.Count < 1:
			c.invalid(path.Child("count"), from.Count, "must be at least 1")
		case len(from.Groups) == 0 && len(from.Users) == 0:
			c.required(path, "groups or users must be given")
		case len(from.Groups) == 0 && int(from.Count) > len(from.Users):
			c.invalid(path.Child("count"), from.Count, "must not be more than the users that are named: there would never be enough people")
		}
		for _, everybody := range []string{user.AllAuthenticated, user.AllUnauthenticated} {
			if slices.Contains(from.Groups, everybody) {
				c.warn(path.Child("groups"), everybody+" contains all users who can approve")
			}
		}
	}
	if sum > p.Count {
		c.warn(path.Child("count"), fmt.Sprintf("the numbers in from add up to %d people, which is what has to approve", sum))
	}
}
