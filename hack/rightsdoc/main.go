// Command rightsdoc prints docs/controllers.md: the table in internal/rights in
// readable form.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/certplane/certplane/internal/rights"
)

const heading = `<!-- Made by hack/generate.sh from internal/rights. -->

# Controllers and their rights

` + "`--controllers` or the field `controllers` chooses by name; `*` is all that are on\nby default, `-name` turns one off. " + `Each controller acts as a service account of
its own, in the namespace ` + "`" + rights.ServeNamespace + "`" + ` of "certplane serve" and, in clusters, in that
where "certplane manifests" installs the controllers (` + "`" + rights.ClusterNamespace + "`" + `).

| name | does | acts as | runs |
|---|---|---|---|
`

func main() {
	out := os.Stdout
	fmt.Fprint(out, heading)
	for _, c := range rights.Controllers() {
		fmt.Fprintf(out, "| `%s` | %s | `%s` | %s |\n", c.Name, c.Doc, c.Account, c.Where)
	}
	fmt.Fprint(out, "\n## Sets\n\nA set stands for the names of its controllers, and `-` before it turns all of them off. An entry for\n"+
		"a controller itself overrides the set: `*,@cert-manager,-certificaterequests-approver`.\n\n| set | controllers |\n|---|---|\n")
	for _, set := range rights.Sets() {
		fmt.Fprintf(out, "| `%s` | %s |\n", set.Name, strings.Join(set.Controllers, ", "))
	}
	fmt.Fprint(out, "\n## Rights\n\nThe role `system:controller:ACCOUNT` in \"certplane serve\", `NAMESPACE:ACCOUNT` in clusters.\n")
	var told []string
	for _, c := range rights.Controllers() {
		if !slices.Contains(told, c.Account) {
			printAccount(out, c.Account)
			told = append(told, c.Account)
		}
	}
	fmt.Fprintf(out, "\n### `%s`\n\nReads, for all controllers of a process that are chosen:\n\n", rights.CacheAccount)
	printRules(out, rights.CacheRules(), "")
	printRules(out, rights.LedgerRules("certplane-policy-quota-0", "...", "certplane-policy-quota-f"), " in its namespace, in clusters")
	fmt.Fprintf(out, "\n### `%s`\n\nServes the admission webhook in clusters.\n\n", rights.WebhookAccount)
	printRules(out, rights.WebhookRules("certplane-webhook.NAMESPACE", true), "")
	printRules(out, rights.WebhookSecretRules("certplane-webhook"), " in its namespace")
	printRules(out, rights.ApprovalKeysRules(), " in its namespace")
	fmt.Fprintf(out, "\n### `%s`\n\nAnswers the clients of the ACME server.\n\n", rights.ACMEServerAccount)
	printRules(out, rights.ACMEServerRules(), "")
	printRules(out, rights.ACMEServerNamespaceRules(), " in its namespace")
	printRoles(out)
}

// printRoles prints the ClusterRoles about certificates that can be bound to
// users.
func printRoles(out io.Writer) {
	fmt.Fprint(out, "\n## Roles for people and programs\n\n"+
		"\"certplane serve\" has these ClusterRoles, and gives none of them to people.\n"+
		"[Who may request, who may approve](who-may.md) shows how people get rights.\n\n"+
		"| ClusterRole | for a user who | rights |\n|---|---|---|\n")
	for _, role := range rights.Roles() {
		if role.Doc != "" {
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", role.Name, role.Doc, strings.Join(ruleTexts(role.Rules, ""), "; "))
		}
	}
}

// printAccount prints the rights of an account for all of its controllers.
func printAccount(out io.Writer, account string) {
	fmt.Fprintf(out, "\n### `%s`\n\n", account)
	printRules(out, rights.Of(account), "")
	for _, c := range rights.Controllers() {
		if c.Account == account {
			printRules(out, c.InNamespace, " in its namespace")
		}
	}
	if account == rights.SignByWebhook.Account {
		printRules(out, []rbacv1.PolicyRule{rights.DelegatedRule("signing.webhooks[].signerName")}, "")
	}
}

func printRules(out io.Writer, rules []rbacv1.PolicyRule, where string) {
	for _, text := range ruleTexts(rules, where) {
		fmt.Fprintln(out, "- "+text)
	}
}

func ruleTexts(rules []rbacv1.PolicyRule, where string) []string {
	var texts []string
	for _, rule := range rules {
		var resources []string
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resources = append(resources, "`"+strings.TrimSuffix(resource+"."+group, ".")+"`")
			}
		}
		names := ""
		if len(rule.ResourceNames) > 0 {
			names = ": `" + strings.Join(rule.ResourceNames, "`, `") + "`"
		}
		texts = append(texts, fmt.Sprintf("%s %s%s%s", strings.Join(rule.Verbs, ", "), strings.Join(resources, ", "), where, names))
	}
	return texts
}
