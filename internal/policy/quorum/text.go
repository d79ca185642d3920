package quorum

import (
	"fmt"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// shownNames is how many groups and users a message names for one entry, so
// that a warning of HTTP stays short.
const shownNames = 6

// Progress describes how many people have approved and who is missing, such as "1 of 2
// approvals: 1 more of security". With several open requirements it names their
// policies. It is empty if none is open.
func Progress(reqs []v1alpha1.PeopleMissing) string {
	open := OpenRequirements(reqs)
	var texts []string
	for _, r := range open {
		text := fmt.Sprintf("%d of %d approvals: %s", r.Have, r.Count, Missing(r.Missing))
		if len(open) > 1 {
			text = policyHeading(r.Policy) + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// standing describes how many people have approved, such as "1 of 2".
func standing(reqs []v1alpha1.PeopleMissing) string {
	var texts []string
	for _, r := range reqs {
		text := fmt.Sprintf("%d of %d", r.Have, r.Count)
		if len(reqs) > 1 {
			text += " for " + r.Policy
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// OpenRequirements returns the requirements that are not met.
func OpenRequirements(reqs []v1alpha1.PeopleMissing) []v1alpha1.PeopleMissing {
	var open []v1alpha1.PeopleMissing
	for _, r := range reqs {
		if len(r.Missing) > 0 {
			open = append(open, r)
		}
	}
	return open
}

func policyHeading(policy string) string { return "certificate policy " + policy + ": " }

// PoliciesHeading names the policies of several requirements.
func PoliciesHeading(reqs []v1alpha1.PeopleMissing) string {
	var names []string
	for _, r := range reqs {
		names = append(names, r.Policy)
	}
	switch names = shortened(names); len(names) {
	case 0:
		return ""
	case 1:
		return policyHeading(names[0])
	default:
		return "certificate policies " + enumerate(names, "and") + ": "
	}
}

// Missing lists the people still needed, such as "1 more of security".
func Missing(missing []v1alpha1.PeopleFrom) string {
	var texts []string
	for _, from := range missing {
		text := fmt.Sprintf("%d more", from.Count)
		if names := peopleNames(from); len(names) > 0 {
			text += " of " + enumerate(names, "or")
		}
		texts = append(texts, text)
	}
	return enumerate(texts, "and")
}

// needed is Missing as a sentence.
func needed(missing []v1alpha1.PeopleFrom) string {
	if len(missing) == 1 && missing[0].Count == 1 {
		return Missing(missing) + " is needed"
	}
	return Missing(missing) + " are needed"
}

// peopleNames returns the groups and users that from names.
func peopleNames(from v1alpha1.PeopleFrom) []string {
	names := append([]string(nil), from.Groups...)
	for _, name := range from.Users {
		names = append(names, "user "+name)
	}
	return shortened(names)
}

func shortened(names []string) []string {
	if len(names) <= shownNames {
		return names
	}
	return append(names[:shownNames-1:shownNames-1], fmt.Sprintf("%d others", len(names)-shownNames+1))
}

// enumerate joins texts: "a, b or c".
func enumerate(texts []string, conjunction string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " " + conjunction + " " + texts[last]
}

// notAmong returns the message to a voter who is not among the people needed.
func notAmong(missing []v1alpha1.PeopleFrom) string {
	var groups, users []string
	for _, from := range missing {
		groups, users = append(groups, from.Groups...), append(users, from.Users...)
	}
	groups, users = shortened(sortedSet(groups)), shortened(sortedSet(users))
	var texts []string
	switch {
	case len(groups) == 1:
		texts = append(texts, "not in the group "+groups[0])
	case len(groups) > 1:
		texts = append(texts, "in none of the groups "+strings.Join(groups, ", "))
	}
	switch {
	case len(users) == 1:
		texts = append(texts, "not the user "+users[0])
	case len(users) > 1:
		texts = append(texts, "none of the users "+strings.Join(users, ", "))
	}
	if len(texts) == 0 {
		return "your approval does not count"
	}
	return "your approval does not count: you are " + enumerate(texts, "and")
}

// Demand lists the people required, such as "2 people: 1 of pki and 1 of security".
func Demand(p v1alpha1.PeopleRequirement) string {
	text := fmt.Sprintf("%d people", p.Count)
	var texts []string
	for _, from := range p.From {
		texts = append(texts, fmt.Sprintf("%d of %s", from.Count, enumerate(peopleNames(from), "or")))
	}
	if len(texts) == 0 {
		return text
	}
	return text + ": " + enumerate(texts, "and")
}

// Enumerate joins the names of people: "alice, bob and carol".
func Enumerate(people []string) string {
	var texts []string
	for _, name := range shortened(people) {
		texts = append(texts, printable(name))
	}
	return enumerate(texts, "and")
}
