package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/holders"
	"github.com/certplane/certplane/internal/policy/request"
)

func (r Report) text(now time.Time) string {
	page := &print.Page{}
	for i, signer := range r.Signers {
		if i > 0 {
			page.Line("")
		}
		page.Line(signer.Name)
		signer.write(page, now)
	}
	page.Section("Waiting for people", r.waitingRows(now))
	page.Section("Proposed changes", r.proposalRows())
	page.Section("Exceptions", r.exceptionRows())
	page.Section("Renewed without people", r.renewingRows(now))
	page.Section("Could vote as another user, by impersonation or with a token", r.impersonatorRows())
	if len(r.Notes) > 0 {
		page.Title("Notes")
	}
	for _, note := range r.Notes {
		page.Line("  " + note)
	}
	return page.String()
}

func (s *Signer) write(page *print.Page, now time.Time) {
	var policies, requests [][]string
	for _, p := range s.Policies {
		policies = append(policies, []string{"policy", p.Name, string(p.Effect), p.modeText(), p.readyText()})
	}
	for _, r := range s.Requests {
		requests = append(requests, []string{string(r.Kind), "rest", r.restText(now)}, []string{"", "enforced at", stagesText(r.EnforcedAt)})
	}
	page.Table(policies)
	page.Table(requests)
}

func (p *Policy) modeText() string {
	if p.Replaces != "" {
		return fmt.Sprintf("%s for %s", p.Mode, p.Replaces)
	}
	if p.Grants == v1alpha1.ApprovePeople || p.Grants == v1alpha1.ApproveLeave {
		return fmt.Sprintf("%s, %s", p.Mode, p.Grants)
	}
	return string(p.Mode)
}

func (p *Policy) readyText() string {
	text := "ready"
	if !p.Ready {
		text = "not ready: " + p.Why
	}
	if p.Protection != "" {
		text += "; changes need " + p.Protection
	}
	return text
}

func (r *Requests) restText(now time.Time) string {
	text := r.Rest
	if r.RestIf != "" {
		text += " (" + r.RestIf + ")"
	}
	if r.Seen != nil {
		text += fmt.Sprintf("; last approved: %s, %s", r.Seen.Request, print.Ago(now, r.Seen.Time.Time))
	}
	return text
}

func stagesText(stages []Stage) string {
	var texts []string
	for _, stage := range stages {
		if text := stage.Name; stage.Known {
			texts = append(texts, text)
		} else {
			texts = append(texts, text+"?")
		}
	}
	return print.OrNone(strings.Join(texts, ", "))
}

func (r *Report) waitingRows(now time.Time) [][]string {
	var rows [][]string
	for _, w := range r.Waiting {
		name := request.FullName(w.Namespace, w.Name)
		rows = append(rows, []string{string(w.Kind), name, w.Signer, w.Message, print.Ago(now, w.Since.Time)})
	}
	return rows
}

func (r *Report) proposalRows() [][]string {
	var rows [][]string
	for _, p := range r.Proposals {
		rows = append(rows, []string{string(p.Kind), p.Name, p.Message})
	}
	return rows
}

func (r *Report) exceptionRows() [][]string {
	var rows [][]string
	for _, x := range r.Exceptions {
		ends := "ends " + x.NotAfter.UTC().Format(time.RFC3339) + ", in " + x.Left
		switch {
		case x.Why != "":
			ends = "not valid: " + x.Why
		case x.Left == "ended":
			ends = "ended " + x.NotAfter.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{x.Name, "of " + strings.Join(x.Policies, ", "), strings.Join(x.Items, ", "), ends, x.Reason})
	}
	return rows
}

func (r *Report) renewingRows(now time.Time) [][]string {
	var rows [][]string
	for _, one := range r.Renewing {
		row := []string{one.Policy, "no certificates", ""}
		switch {
		case one.Certificates == 1:
			row[1] = "1 certificate"
		case one.Certificates > 1:
			row[1] = fmt.Sprintf("%d certificates", one.Certificates)
		}
		if one.Since != nil && one.Until != nil {
			row[2] = fmt.Sprintf("the oldest issued %s, valid until %s at the latest", print.Ago(now, one.Since.Time), one.Until.UTC().Format(time.RFC3339))
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Report) impersonatorRows() [][]string {
	var rows [][]string
	for _, one := range r.Impersonators {
		var as, bindings []string
		for _, subject := range one.As {
			text := subject.String()
			if subject == holders.AnyUser {
				text = "any user"
			}
			as = append(as, text)
		}
		for _, source := range one.Sources {
			bindings = append(bindings, source.Binding)
		}
		rows = append(rows, []string{one.Policy, one.Subject.String(), "as " + strings.Join(as, ", "), strings.Join(one.By, ", "), strings.Join(bindings, ", ")})
	}
	return rows
}
