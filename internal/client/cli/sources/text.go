package sources

import (
	"strings"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// Text prints a report as text.
func (r Report) Text() string {
	p := &print.Page{}
	if len(r.Sources) == 0 {
		p.Line("No source issues a certificate for the " + r.Kind + " " + r.Name + " among the objects that you may read.")
	} else {
		p.Line("Sources of certificates for the " + r.Kind + " " + r.Name + ":")
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
		p.Line("You may not read " + strings.Join(r.Unread, ", ") + ": the answer is incomplete.")
	}
	for _, note := range r.Notes {
		p.Line(note)
	}
	return p.String()
}
