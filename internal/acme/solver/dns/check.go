package dns

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// Check implements solver.Solver. It asks the servers that the CA would ask.
func (s *Solver) Check(ctx context.Context, task solver.Task) (solver.Found, error) {
	p, err := newPlan(task, s.cfg.Settings)
	if err != nil {
		return solver.Found{}, err
	}
	if p.kind == certmanager.TypeDNSAccount01 && p.account == "" {
		return solver.Found{}, errNoAccount
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if p.kind == certmanager.TypeDNSPersist01 {
		return s.checkPersistent(ctx, task, p)
	}
	return s.checkValue(ctx, task, p)
}

func (s *Solver) checkValue(ctx context.Context, task solver.Task, p plan) (solver.Found, error) {
	var w where
	if task.Where != "" {
		var err error
		if w, err = parseWhere(task.Where, p); err != nil {
			return solver.Found{}, err
		}
	}
	has := func(values []string) bool { return slices.Contains(values, task.Challenge.Spec.Key) }
	asked, j, err := s.look(ctx, p.name, has)
	if err != nil {
		return solver.Found{}, err
	}
	if j.propagated {
		return s.found(j, w), nil
	}
	detail := j.String()
	if w.FQDN != "" && w.FQDN != asked {
		other, there := s.lookAtWritten(ctx, p, w, has)
		if there {
			return s.found(other, w), nil
		}
		detail = astray(p, w, asked, detail)
	}
	return solver.Found{}, notPropagated(task, detail)
}

func notPropagated(task solver.Task, detail string) error {
	return fmt.Errorf("DNS record for %q not yet propagated: %s", task.Challenge.Spec.DNSName, detail)
}

// look asks for the TXT records where the CNAMEs of a name lead to. CAs follow
// them whatever the strategy of the solver.
func (s *Solver) look(ctx context.Context, name string, has func([]string) bool) (asked string, j judgement, err error) {
	path, err := s.cfg.Resolver.Follow(ctx, name)
	if err != nil {
		return "", judgement{}, err
	}
	asked = path[len(path)-1]
	views, err := s.views(ctx, asked)
	return asked, judge(views, has), err
}

func (s *Solver) views(ctx context.Context, fqdn string) ([]resolver.View, error) {
	if s.view() == recursive {
		return s.cfg.Resolver.RecursiveTXT(ctx, fqdn), nil
	}
	return s.cfg.Resolver.AuthoritativeTXT(ctx, fqdn)
}

func (s *Solver) view() view {
	if s.cfg.Settings.RecursiveNameserversOnly {
		return recursive
	}
	return authoritative
}

// lookAtWritten reports whether the record is at the very name that the CA starts with,
// although a CNAME was found there: the name servers may have cached a CNAME from a
// wildcard before the record was written.
func (s *Solver) lookAtWritten(ctx context.Context, p plan, w where, has func([]string) bool) (judgement, bool) {
	if w.FQDN != p.name || s.view() == recursive {
		return judgement{}, false
	}
	views, err := s.views(ctx, w.FQDN)
	if err != nil {
		return judgement{}, false
	}
	j := judge(views, has)
	return j, j.propagated
}

// astray returns the message that the record was not written where the CA looks.
func astray(p plan, w where, asked, detail string) string {
	text := fmt.Sprintf("the CA looks at %s, to which the CNAME record of %s leads, but the record was written at %s", asked, p.name, w.FQDN)
	switch {
	case asked == p.name:
		text = fmt.Sprintf("the CA looks at %s, but the record was written at %s, to which a CNAME record led", asked, w.FQDN)
	case !p.follow():
		text += "; cnameStrategy: Follow writes it where the CA looks"
	}
	return text + "; " + detail
}

// found returns the result of a success.
func (s *Solver) found(j judgement, w where) solver.Found {
	var notes []string
	if note := j.note(); note != "" {
		notes = append(notes, note)
	}
	if w.Wildcard {
		notes = append(notes, fmt.Sprintf("the record was written at %s, to which a wildcard CNAME record led; cnameStrategy: None would write it in the domain itself", w.FQDN))
	}
	return solver.Found{Delay: s.cfg.Settings.delay(s.view()), Note: strings.Join(notes, "; ")}
}
