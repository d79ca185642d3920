package explain

import (
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
)

// certificateView returns the explanation as text.
func certificateView(e explain.CertificateExplanation, now time.Time) View {
	v := View{Verdict: e.Verdict, Next: e.Next}
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
	v.add("Certificate", rows)
	v.add("Checks", CheckRows(e.Checks))
	v.add("Events", EventRows(e.Events, now))
	return v
}
