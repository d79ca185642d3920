package whocan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/holders"
	"github.com/certplane/certplane/internal/rights"
)

// text prints a report as text.
func (cfg Config) text(r Report) string {
	p := &print.Page{}
	p.Line("Users who may " + r.Task + ":")
	p.Table(cfg.holderRows(r.Holders))
	if len(r.Partial) > 0 {
		p.Title("Users with a part of the rights, who may not:")
		p.Table(partialRows(r.Partial))
	}
	if cfg.Impersonators && len(r.Actors) > 0 {
		p.Title("Users who can act as one of them:")
		p.Table(actorRows(r.Actors))
	}
	p.WriteString("\n")
	for _, note := range cfg.notes(r) {
		p.Line(note)
	}
	return p.String()
}

// holderRows returns a row for each binding that grants a subject its rights. Namespaces
// are shown if they matter.
func (cfg Config) holderRows(list []holders.Holder) [][]string {
	rows := [][]string{{"SUBJECT", "WHERE", "BY", "ROLE"}}
	for _, h := range list {
		subject, where := h.Subject.String(), whereText(h)
		for _, by := range waysOf(h) {
			rows = append(rows, append([]string{subject, where}, by...))
			subject, where = "", ""
		}
	}
	if _, matter := cfg.namespaces(); !matter {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
	}
	return rows
}

// waysOf returns the sources of a subject's rights, and its missing rights.
func waysOf(h holders.Holder) [][]string {
	var ways [][]string
	if h.BuiltIn {
		ways = append(ways, []string{"API servers, which grant it all rights", ""})
	}
	for _, source := range distinct(h) {
		ways = append(ways, []string{source.Binding + viaText(source), roleText(source)})
	}
	for _, lack := range h.Lacks {
		ways = append(ways, []string{"lacks " + lack.Right + ", which most programs also need", ""})
	}
	return ways
}

func whereText(h holders.Holder) string {
	if len(h.Namespaces) == 0 {
		return "everywhere"
	}
	return strings.Join(h.Namespaces, ", ")
}

// distinct returns the sources of a subject's rights, each once.
func distinct(h holders.Holder) []holders.Source {
	var all []holders.Source
	seen := map[string]bool{}
	for _, held := range h.Has {
		for _, source := range held.Sources {
			if key := source.Binding + "\n" + source.Group; !seen[key] {
				seen[key] = true
				all = append(all, source)
			}
		}
	}
	return all
}

func viaText(s holders.Source) string {
	if s.Group == "" {
		return ""
	}
	return " (as one of " + s.Group + ")"
}

// roleText does not repeat a long name that the role shares with the binding.
func roleText(s holders.Source) string {
	kind, name, _ := strings.Cut(s.Role, " ")
	text := s.Role
	if strings.HasSuffix(s.Binding, " "+name) {
		text = kind + " of that name"
	}
	if len(s.From) > 0 {
		text += " (from " + strings.Join(s.From, ", ") + ")"
	}
	return text
}

// partialRows returns a row for each right that a subject holds or lacks.
func partialRows(list []holders.Holder) [][]string {
	var rows [][]string
	for _, h := range list {
		subject := h.Subject.String()
		if len(h.Namespaces) > 0 {
			subject += " in " + whereText(h)
		}
		for _, held := range h.Has {
			if held.Optional {
				continue
			}
			source := held.Sources[0]
			rows = append(rows, []string{subject, "has", held.Right + ", by " + source.Binding + viaText(source)})
			subject = ""
		}
		for _, lack := range h.Lacks {
			rows = append(rows, []string{subject, "lacks", lack.Right})
			subject = ""
			for _, almost := range lack.Almost {
				rows = append(rows, []string{"", "but", almost})
			}
		}
	}
	return rows
}

func actorRows(actors []holders.Actor) [][]string {
	rows := [][]string{{"SUBJECT", "AS", "WITH", "BY"}}
	for _, a := range actors {
		rows = append(rows, []string{a.Subject.String(), asText(a.As), strings.Join(a.By, ", "), a.Sources[0].Binding})
	}
	return rows
}

// asText names the first subjects of a list that can be long.
func asText(as []holders.Subject) string {
	const most = 3
	var names []string
	for _, s := range as {
		names = append(names, s.String())
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// notes returns facts that the table does not show.
func (cfg Config) notes(r Report) []string {
	var notes []string
	if r.Together {
		notes = append(notes, "A user who is several of the subjects that may not holds the rights of all of them. RBAC does not know the members of groups.")
	}
	if r.Verb == rights.TaskRequest && !cfg.Target.NeedsReference() {
		notes = append(notes, "RBAC does not limit requests to a signer. A CertificatePolicy can: 'certplane who-can use POLICY' lists the users who may use it.")
	}
	if _, isIssuer := cfg.Target.Issuer(); isIssuer && cfg.Target.UsualKind() && r.Verb == rights.TaskApprove {
		notes = append(notes, "CertificateSigningRequests that name this issuer need other rights: --kind "+rights.SigningRequests.Name+" lists the users who may approve them.")
	}
	if len(r.Actors) == 0 && cfg.Impersonators {
		notes = append(notes, "No other user can act as one of them, by impersonation or with tokens of service accounts.")
	}
	if len(r.Actors) > 0 && !cfg.Impersonators {
		notes = append(notes, fmt.Sprintf("%d more users can act as one of them, by impersonation or with tokens of service accounts: --impersonators lists them.", len(r.Actors)))
	}
	if len(r.Unread) > 0 {
		notes = append(notes, "You may not read "+strings.Join(r.Unread, " and ")+": rights granted in a namespace by mistake are not shown.")
	}
	return append(notes, "This list covers only RBAC. Other authorizers (Node, webhooks) and admission can permit and refuse more.")
}
