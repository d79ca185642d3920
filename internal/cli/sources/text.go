package sources

import (
	"strings"

	"github.com/certplane/certplane/internal/cli/print"
)

// Text shows a report for people.
func (r Report) Text() string {
	p := &print.Page{}
	if len(r.Sources) == 0 {
		p.Line("Nobody can get a certificate for the " + r.Kind + " " + r.Name + " from what is shown here.")
	} else {
		p.Line("Who can get a certificate for the " + r.Kind + " " + r.Name + ":")
	}
	for _, s := range r.Sources {
		p.Title(s.From)
		rows := [][]string{{"requested by", s.Requesters}, {"approved by", s.Approvers}}
		for _, open := range s.Open {
			rows = append(rows, []string{"if", open})
		}
		p.Table(rows)
	}
	var rows [][]string
	for _, refusal := range r.Refusing {
		rows = append(rows, []string{refusal.From, refusal.Because})
	}
	p.Section("Not from:", rows)
	p.WriteString("\n")
	if len(r.Unread) > 0 {
		p.Line("You may not read " + strings.Join(r.Unread, ", ") + ": the answer is not complete.")
	}
	for _, note := range r.Notes {
		p.Line(note)
	}
	return p.String()
}
