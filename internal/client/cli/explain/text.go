package explain

import (
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
)

// requestView returns a function that returns the explanation of a request as text. rows
// returns the content of the request.
func requestView[R any](rows func(explain.Explained[R], time.Time) [][]string) func(explain.Explained[R], time.Time) View {
	return func(e explain.Explained[R], now time.Time) View {
		v := View{Verdict: e.Verdict, Next: e.Next}
		v.add("Request", rows(e, now))
		v.add("Checks", CheckRows(e.Checks))
		if e.Certificate != nil {
			rows := certificateRows(*e.Certificate)
			if e.RefreshAt != nil {
				rows = append(rows, []string{"refresh at", e.RefreshAt.UTC().Format(time.RFC3339)})
			}
			v.add("Certificate", rows)
		}
		v.add("Events", EventRows(e.Events, now))
		return v
	}
}

// CheckRows returns checks as rows of a section.
func CheckRows(checks []explain.Check) [][]string {
	return rowsOf(checks, func(c explain.Check) []string { return []string{strings.ToLower(string(c.Result)), c.Name, c.Message} })
}

// EventRows returns events as rows of a section.
func EventRows(events []explain.Event, now time.Time) [][]string {
	return rowsOf(events, func(ev explain.Event) []string {
		return []string{print.Ago(now, ev.Time), ev.Reason, ev.Reporter, ev.Note}
	})
}

func rowsOf[T any](list []T, row func(T) []string) [][]string {
	var rows [][]string
	for _, item := range list {
		rows = append(rows, row(item))
	}
	return rows
}

func signingRequestRows(e explain.Explanation, now time.Time) [][]string {
	r := e.Request
	lifetime := "as long as the signer gives"
	if r.ExpirationSeconds != nil {
		lifetime = (time.Duration(*r.ExpirationSeconds) * time.Second).String()
	}
	return [][]string{
		{"signer", r.SignerName},
		{"requester", r.Username},
		{"groups", list(r.Groups)},
		{"subject", print.OrNone(r.Subject)},
		{"names", list(r.Names)},
		{"usages", list(r.Usages)},
		{"key", print.OrNone(r.Key)},
		{"lifetime", lifetime},
		{"created", print.Ago(now, r.Created)},
	}
}

func issuerRequestRows(e explain.RequestExplanation, now time.Time) [][]string {
	r := e.Request
	duration, usages := certmanager.DefaultDuration, list(r.Usages)
	if r.Duration != nil {
		duration = r.Duration.Duration
	}
	if len(r.Usages) == 0 {
		usages = list(cmv1.DefaultKeyUsages()) + " (as none are given)"
	}
	if r.IsCA {
		usages += "; as a CA"
	}
	return [][]string{
		{"issuer", r.Issuer},
		{"requester", r.Username},
		{"groups", list(r.Groups)},
		{"for", print.OrNone(r.Owner)},
		{"subject", print.OrNone(r.Subject)},
		{"names", list(r.Names)},
		{"usages", usages},
		{"key", print.OrNone(r.Key)},
		{"lifetime", fmt.Sprint(duration)},
		{"created", print.Ago(now, r.Created)},
	}
}

func podRequestRows(e explain.PodExplanation, now time.Time) [][]string {
	return [][]string{
		{"signer", e.Request.SignerName}, {"pod", e.Namespace + "/" + e.Request.Pod}, {"service account", e.Request.ServiceAccount},
		{"node", e.Request.Node}, {"key", print.OrNone(e.Request.Key)}, {"created", print.Ago(now, e.Request.Created)},
	}
}

func certificateRows(c explain.Certificate) [][]string {
	rows := [][]string{
		{"subject", print.OrNone(c.Subject)},
		{"issuer", print.OrNone(c.Issuer)},
		{"serial", c.SerialNumber},
		{"SHA-256", c.SHA256},
		{"valid", c.NotBefore.Format(time.RFC3339) + " to " + c.NotAfter.Format(time.RFC3339)},
	}
	if c.Revocation != nil {
		effect := "this server refuses the certificate"
		if c.Revocation.Name == "" {
			effect = "none: the ACME server has only noted it, and the certificate is accepted"
		}
		rows = append(rows, []string{"revoked", c.Revocation.String()}, []string{"effect", effect})
	}
	return rows
}

func list[S ~string](items []S) string {
	var names []string
	for _, item := range items {
		names = append(names, string(item))
	}
	return print.OrNone(strings.Join(names, ", "))
}

// WriteSteps writes the next steps.
func WriteSteps(p *print.Page, steps []explain.Step) {
	if len(steps) == 0 {
		return
	}
	p.Title("Next")
	for _, step := range steps {
		p.Line("  " + step.Text)
		for i, command := range step.Commands {
			line := print.CommandLine(command...)
			if step.Input != "" && i == len(step.Commands)-1 {
				line += " <<'" + inputEnd + "'"
			}
			p.Line("    " + line)
		}
		writeInput(p, step.Input)
	}
}

// writeInput writes the input of the preceding command. It is not indented, so that users
// can copy it unchanged.
func writeInput(p *print.Page, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		p.Line(strings.TrimSuffix(line, "\n"))
	}
	p.Line(inputEnd)
}

// inputEnd marks the end of a command's input.
const inputEnd = "END"
