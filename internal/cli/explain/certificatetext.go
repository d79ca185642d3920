package explain

import (
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
)

// certificateText returns the explanation for people: the verdict first.
func certificateText(e explain.CertificateExplanation, now time.Time) string {
	p := &print.Page{}
	p.Line(e.Verdict)
	rows := [][]string{{"issuer", e.Issuer}, {"secret", e.Secret}, {"created", print.Ago(now, e.Created)}}
	if e.Revision > 0 {
		rows = append(rows, []string{"issued", fmt.Sprintf("%d times", e.Revision)})
	}
	for _, at := range []struct {
		name string
		time *time.Time
	}{{"valid from", e.NotBefore}, {"valid until", e.NotAfter}, {"renewed at", e.RenewalTime}, {"tried again at", e.RetryTime}} {
		if at.time != nil {
			rows = append(rows, []string{at.name, at.time.UTC().Format(time.RFC3339)})
		}
	}
	rows = append(rows, e.SuggestedRenewal.Rows()...)
	p.Section("Certificate", rows)
	p.Section("Checks", CheckRows(e.Checks))
	p.Section("Events", eventRows(e.Events, now))
	WriteSteps(p, e.Next)
	return p.String()
}
