package explain

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/process/duration"
)

// Order explains an Order of an ACME issuer.
func Order(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.Order, orderView)
}

// Challenge explains a Challenge of an ACME issuer.
func Challenge(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.Challenge, challengeView)
}

func orderView(e explain.OrderExplanation, now time.Time) View {
	v := View{Verdict: e.Verdict, Next: e.Next}
	lifetime := "as long as the CA gives"
	if e.Order.Duration != nil {
		lifetime = duration.Format(e.Order.Duration.Duration)
	}
	rows := [][]string{
		{"issuer", e.Order.Issuer}, {"for", print.OrNone(e.Order.For)}, {"names", list(e.Order.Names)}, {"lifetime", lifetime},
	}
	rows = append(rows, optional("profile", e.Order.Profile)...)
	rows = append(rows, optional("replaces", e.Order.Replaces)...)
	rows = append(rows, []string{"at the CA", print.OrNone(e.Order.URL)}, []string{"created", print.Ago(now, e.Order.Created)})
	v.add("Order", rows)
	v.add("Checks", CheckRows(e.Checks))
	v.add("Names", rowsOf(e.Names, func(n explain.OrderName) []string {
		text := strings.Join(strings.Fields(string(n.Type)+" "+n.Challenge), " ")
		if n.Reason != "" && n.State != acmev1.Valid {
			text = strings.TrimPrefix(text+": "+n.Reason, ": ")
		}
		return []string{string(cmp.Or(n.State, acmev1.Pending)), n.Domain, text}
	}))
	v.add("Solvers", solversOf(e.Names))
	v.add("Events", EventRows(e.Events, now))
	return v
}

// solversOf returns the solvers of names. Names with equal choices share rows.
func solversOf(names []explain.OrderName) [][]string {
	var order []string
	first, count := map[string]explain.OrderName{}, map[string]int{}
	for _, n := range names {
		var texts []string
		for _, s := range n.Solvers {
			texts = append(texts, s.Text)
		}
		key := strings.Join(texts, "\n")
		if count[key]++; count[key] == 1 {
			first[key] = n
			order = append(order, key)
		}
	}
	var rows [][]string
	for _, key := range order {
		domain := first[key].Domain
		if others := count[key] - 1; others > 0 {
			domain += fmt.Sprintf(" and %d others", others)
		}
		rows = append(rows, solverRows(domain, first[key].Solvers)...)
	}
	return rows
}

func challengeView(e explain.ChallengeExplanation, now time.Time) View {
	v := View{Verdict: e.Verdict, Next: e.Next}
	v.add("Challenge", [][]string{
		{"domain", e.Challenge.Domain}, {"type", string(e.Challenge.Type)}, {"issuer", e.Challenge.Issuer}, {"order", print.OrNone(e.Challenge.Order)},
		{"at the CA", print.OrNone(e.Challenge.URL)}, {"created", print.Ago(now, e.Challenge.Created)},
	})
	var expected [][]string
	for _, row := range [][2]string{
		{"URL", e.Expected.URL}, {"TXT record", e.Expected.Record}, {"server", e.Expected.Server}, {"value", e.Expected.Value}, {"written at", e.Expected.Written},
	} {
		expected = append(expected, optional(row[0], row[1])...)
	}
	v.add("The CA expects", expected)
	v.add("Checks", CheckRows(e.Checks))
	v.add("Solvers", solverRows(e.Challenge.Domain, e.Solvers))
	v.add("Events", EventRows(e.Events, now))
	return v
}

// optional returns a row, or nil without a value.
func optional(name, value string) [][]string {
	if value == "" {
		return nil
	}
	return [][]string{{name, value}}
}

func solverRows(domain string, solvers []explain.SolverChoice) [][]string {
	return rowsOf(solvers, func(s explain.SolverChoice) []string { return []string{domain, s.Text} })
}

// ACMEEndpoint explains an endpoint of the ACME server.
func ACMEEndpoint(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.ACMEEndpoint, objectView)
}

// ACMEExternalKey explains an external key of the ACME server.
func ACMEExternalKey(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.ACMEExternalKey, objectView)
}

// ACMEAccount explains an account of an ACME client.
func ACMEAccount(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.ACMEAccount, objectView)
}

// ACMEOrder explains an order of an ACME client.
func ACMEOrder(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.ACMEOrder, objectView)
}

// Revocation explains a Revocation.
func Revocation(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.OfRevocation, objectView)
}

func objectView(e explain.ObjectExplanation, now time.Time) View {
	v := View{Verdict: e.Verdict, Next: e.Next}
	v.add("Content", rowsOf(e.Content, func(f explain.ObjectField) []string { return []string{f.Name, f.Value} }))
	v.add("Checks", CheckRows(e.Checks))
	var proofs [][]string
	for _, a := range e.Authorizations {
		if a.Origin != v1alpha1.AcmeOriginChallenge || len(a.Challenges) == 0 {
			proofs = append(proofs, []string{a.State, a.Identifier, strings.ToLower(string(a.Origin)), ""})
			continue
		}
		for _, c := range a.Challenges {
			proofs = append(proofs, []string{a.State, a.Identifier, c.Type + " " + c.State, attempts(c)})
		}
	}
	v.add("Proofs of control", proofs)
	if r := e.Request; r != nil {
		v.Sections = append(v.Sections, Section{Title: "Request " + r.Name, Lead: r.Verdict, Rows: CheckRows(r.Checks)})
	}
	v.add("Events", EventRows(e.Events, now))
	return v
}

// attempts describes the number and the outcome of a challenge's attempts.
func attempts(c explain.ACMEChallenge) string {
	if c.Attempts == 0 {
		return ""
	}
	text := fmt.Sprintf("tried %d times", c.Attempts)
	if c.Address != "" {
		text += " at " + c.Address
	}
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text
}
