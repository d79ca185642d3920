package explain

import (
	"strconv"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/request"
)

// signerView returns the explanation as text.
func signerView(e *explain.SignerExplanation, now time.Time) View {
	v := View{Verdict: e.Verdict, Next: e.Next}
	v.add("Statements (KEP-1513)", rowsOf(e.Statements, func(s explain.Statement) []string { return []string{s.Name, s.Text} }))
	if e.CA != nil {
		v.add("CA", rowsOfCA(*e.CA))
	}
	if e.NextCA != nil {
		rows := rowsOfCA(*e.NextCA)
		if e.NextCA.SignsFrom == nil {
			rows = append(rows, []string{"signs from", "when its root has been published for some time"})
		}
		v.add("Next CA", rows)
	}
	for _, ca := range e.FormerCAs {
		v.add("Former CA", rowsOfCA(ca))
	}
	v.add("Requests", countRows(e))
	v.add("Waiting", rowsOf(e.Waiting, func(w explain.Waiting) []string {
		return []string{w.Kind, request.FullName(w.Namespace, w.Name), string(w.State), print.Ago(now, w.Created)}
	}))
	v.add("Unknown", rowsOf(e.Unknown, func(text string) []string { return []string{text} }))
	return v
}

func countRows(e *explain.SignerExplanation) [][]string {
	var rows [][]string
	for _, count := range []struct {
		name   string
		number *int64
	}{{"issued", e.Issued}, {"refused", e.Refused}} {
		if count.number != nil {
			rows = append(rows, []string{count.name, strconv.FormatInt(*count.number, 10)})
		}
	}
	return append(rows, []string{"waiting", strconv.Itoa(len(e.Waiting))})
}

func rowsOfCA(ca v1alpha1.CAStatus) [][]string {
	rows := [][]string{
		{"subject", print.OrNone(ca.Subject)},
		{"SHA-256", ca.Fingerprint},
		{"valid", ca.NotBefore.UTC().Format(time.RFC3339) + " to " + ca.NotAfter.UTC().Format(time.RFC3339)},
	}
	if ca.SignsFrom != nil {
		rows = append(rows, []string{"signs from", ca.SignsFrom.UTC().Format(time.RFC3339)})
	}
	if ca.TrustedUntil != nil {
		rows = append(rows, []string{"trusted until", ca.TrustedUntil.UTC().Format(time.RFC3339)})
	}
	return rows
}
