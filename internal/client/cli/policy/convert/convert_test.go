package convert

import "testing"

func TestExpressions(t *testing.T) {
	for rule, want := range map[string]string{
		"self.endsWith(cr.namespace + '.svc')":                                           "self.endsWith(request.namespace + '.svc')",
		`self != "cr.name" && cr.username == 'x'`:                                        `self != "cr.name" && requester.username == 'x'`,
		"isServiceAccount(cr.username) && serviceAccount(cr.username).getName() == self": "has(requester.serviceAccount) && requester.serviceAccount.name == self",
		"cr.groups.exists(g, g == 'cr.groups')":                                          "requester.groups.exists(g, g == 'cr.groups')",
		"serviceAccount(self).getName() == 'a'":                                          "",
		"isServiceAccount('a')":                                                          "",
		"has(cr.name)":                                                                   "has(request.name)",
		"cr.spec == 'a'":                                                                 "",
	} {
		got, err := expressionOf(rule)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s\n became %s (%v)\n   want %s", rule, got, err, want)
		}
	}
}
